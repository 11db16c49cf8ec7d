"""Transactions on rows of one table, each an attempt that is made anew when another one aborts it.

A read-write transaction is two requests: a read that begins it, with exclusive locks on its rows,
and a commit with the mutations that were decided on meanwhile. Spanner runs them as if one after
the other. Whom it aborts has done nothing, and is tried again here, for as long as one request may
take and no longer.

What has no answer leaves a transaction behind that may be open, with its locks. A session has one
transaction at a time: to begin another one there invalidates it, unless it was committed. So the
session is *reset*: by whoever asks again for an owner whose commit had no answer, before it reads,
and else in the background. A commit that is held up on its way can then do nothing any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from ...errors import Denied, FencelockError, Misconfigured, Unavailable
from ...world import World, sleep
from ..backoff import back_off
from ..lending_pool import LendingPool
from . import rows, tables
from .rows import Row, Write
from .settings import Settings
from .wire import Wire
from .wire.errors import Aborted, SessionMissing, TableMissing

T = TypeVar("T")
Decide: TypeAlias = Callable[[Mapping[str, Row]], tuple[T, Sequence[Write]]]

AGAIN_MIN_S, AGAIN_MAX_S = 0.005, 0.25  # between two attempts of a transaction
SESSIONS_LOST_MAX = 3
CREATE_S = 120.0  # a change of a schema may take a minute
LOOK_S = 0.2
CLOSE_S = 1.0
ADVICE = "make it with what `fencelock schema spanner` prints, or let a client with more rights"


class Committed(NamedTuple, Generic[T]):
    """What came of a transaction."""

    answer: T
    asked_at: float
    """Read before the attempt that was committed had sent anything."""
    micros: int
    """The timestamp of the commit."""


class Session:
    """One session of the server, by its name. It has one transaction at a time."""

    def __init__(self, name: str) -> None:
        self.name = name


class Database:
    """One table of one database, for one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._sql = tables.statements(settings.table)
        self.wire = Wire(world, settings)
        self._pool = LendingPool[Session](world, self._new_session, settings.pool)
        self._doubts: dict[str, Session] = {}
        """By owner, where a commit had no answer."""

    async def _new_session(self) -> Session:
        return Session(await self.wire.create_session())

    def _give_up(self) -> float:
        return min(self._world.now() + self._settings.request_timeout, self._world.limit())

    # Read without locks, what was committed before

    async def look(self, *names: str) -> list[Row]:
        """Read these rows, in any order."""
        return await self._read("look", names=names)

    async def scan(self, prefix: str) -> list[Row]:
        """Read the rows of all that is held under names with a prefix."""
        return await self._read("scan", prefix=prefix)

    async def _read(self, statement: str, **parameters: str | Sequence[str]) -> list[Row]:
        async def ask(session: Session) -> list[Row]:
            sql = self._sql[statement]
            _, found = await self.wire.execute(session.name, sql, begin=False, **parameters)
            return [rows.read(values) for values in found]

        # A read leaves nothing open.
        return await self._in_session(ask, self._give_up(), self._pool.give_back)

    async def _in_session(
        self,
        work: Callable[[Session], Awaitable[T]],
        give_up: float,
        failed: Callable[[Session], None],
    ) -> T:
        """Do this in a session, and in another one where Spanner has dropped it."""
        for _ in range(SESSIONS_LOST_MAX):
            session = await self._pool.lend(give_up)
            if session is None:
                all_lent = f"all {self._settings.pool} sessions of this client were in use"
                raise Unavailable(f"{all_lent}, nothing was done: allow more by pool=")
            try:
                answer = await work(session)
            except SessionMissing:
                self._pool.forget(session)
                self._pool.drain()
            except BaseException:
                failed(session)
                raise
            else:
                self._pool.give_back(session)
                return answer
        database = self._settings.database
        raise Unavailable(f"{database} forgets each session at once; nothing was done")

    # Transactions

    async def transact(
        self, names: Sequence[str], decide: Decide[T], owners: Sequence[str] = ()
    ) -> Committed[T]:
        """Read these rows, and write what is decided on. ``decide`` may be called several times.

        Where the commit has no answer, the next transaction for one of these owners comes after it.
        """
        for owner in owners:
            if owner in self._doubts:
                await self._reset(self._doubts[owner])
                self._doubts.pop(owner, None)
        give_up = self._give_up()

        async def attempts(session: Session) -> Committed[T]:
            aborted = 0
            while True:
                try:
                    return await self._attempt(session, names, decide, owners)
                except Aborted as error:
                    aborted += 1
                    if not await back_off(self._world, aborted, AGAIN_MIN_S, AGAIN_MAX_S, give_up):
                        words = "met others each time; nothing was done"
                        raise Unavailable(f"{aborted} transactions {words} ({error})") from error

        return await self._in_session(attempts, give_up, lambda one: self._abandon(one, owners))

    async def _attempt(
        self,
        session: Session,
        names: Sequence[str],
        decide: Decide[T],
        owners: Sequence[str],
    ) -> Committed[T]:
        asked_at, wire = self._world.now(), self.wire
        transaction, found = await wire.execute(
            session.name, self._sql["lock"], begin=True, names=names
        )
        seen = [rows.read(values) for values in found]
        answer, writes = decide({row.name: row for row in seen})
        if not writes:
            await wire.rollback(session.name, transaction)
            return Committed(answer, asked_at, 0)
        self._doubts.update(dict.fromkeys(owners, session))
        try:
            micros = await wire.commit(session.name, transaction, writes)
        except (Aborted, SessionMissing, Unavailable, Misconfigured):
            self._know(owners)
            raise
        self._know(owners)
        return Committed(answer, asked_at, micros)

    def _know(self, owners: Sequence[str]) -> None:
        for owner in owners:
            self._doubts.pop(owner, None)

    def _abandon(self, session: Session, owners: Sequence[str]) -> None:
        """See to a session in which a transaction may be open."""
        self._pool.forget(session)
        if not any(self._doubts.get(owner) is session for owner in owners):
            try:
                self._world.spawn(self._reset_later(session), "fencelock-spanner-reset")
            except RuntimeError:
                pass  # no thread, or no loop any more: Spanner aborts what is idle for 10 s

    async def _reset(self, session: Session) -> None:
        """Have no transaction go on in a session that nobody uses any more."""
        try:
            await self.wire.reset(session.name)
        except SessionMissing:
            pass  # nor does the session
        except Aborted as error:  # told by none of the three
            raise Unavailable(f"a session could not be reset: {error}") from error

    async def _reset_later(self, session: Session) -> None:
        try:
            await self._reset(session)
        except FencelockError:
            pass  # Spanner aborts what is idle for 10 s

    # The table

    async def ready(self) -> None:
        """See that the table is there; make it if that is wanted."""
        give_up, made = min(self._world.now() + CREATE_S, self._world.limit()), False
        while True:
            try:
                await self.look(rows.SIDE)
                return
            except TableMissing as error:
                if not self._settings.create:
                    raise Misconfigured(f"{error}: {ADVICE}") from error
            if self._world.now() + LOOK_S >= give_up:
                raise Unavailable(f"the table {self._settings.table!r} is still being made")
            try:
                if not made:
                    await self.wire.change_ddl(self._sql["table"])
                    made = True
                    continue
            except Denied as error:
                raise Misconfigured(f"{error}. The table is missing: {ADVICE}") from error
            except Misconfigured as error:
                if "concurrent" not in str(error):  # another change of the schema is under way
                    raise
            await sleep(self._world, LOOK_S)

    async def close(self) -> None:
        """Give the sessions back that nobody uses, if the server answers."""
        delete = self.wire.delete_session
        idle = [partial(delete, session.name) for session in self._pool.drain()]
        if idle:
            await self._world.gather(idle, self._world.now() + CLOSE_S)
        self.close_nowait()

    def close_nowait(self) -> None:
        self.wire.close()
