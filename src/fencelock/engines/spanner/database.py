"""Transactions on rows of one table, each retried when Spanner aborts it because of another one.

A read-write transaction is two requests: a read that begins it, with exclusive locks on its rows,
and a commit with the mutations that were decided on meanwhile. Spanner's transactions are
serializable. An aborted one has done nothing, and is retried here, for as long as one request may
take and no longer.

A request without a reply leaves a transaction behind that may be open, with its locks. A session
has one transaction at a time: to begin another one there invalidates it, unless it was committed.
So the session is *reset*: by the next transaction for an owner whose commit had no reply, before it
reads, and else in the background. A delayed commit can then no longer do anything.
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
CHECK_S = 0.2
CLOSE_S = 1.0
ADVICE = "make it with what `fencelock schema spanner` prints, or let a client with more rights"


class Committed(NamedTuple, Generic[T]):
    """The result of a transaction."""

    answer: T
    asked_at: float
    """When the attempt that was committed had not yet sent anything, by ``world.now()``."""
    micros: int
    """The commit timestamp, in microseconds; 0 if nothing was written."""


class Session:
    """A session on the server, by its name. It has one transaction at a time."""

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
        self._unresolved: dict[str, Session] = {}
        """By owner: the session whose commit is under way, or had no reply."""

    async def _new_session(self) -> Session:
        return Session(await self.wire.create_session())

    def _give_up(self) -> float:
        return min(self._world.now() + self._settings.request_timeout, self._world.limit())

    # Strong reads, without locks

    async def look(self, *names: str) -> list[Row]:
        """Read these rows, in any order."""
        return await self._read("look", names=names)

    async def scan(self, prefix: str) -> list[Row]:
        """Read the rows of held locks whose names begin with a prefix."""
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
        """Run ``work`` with a session, and with another one where Spanner has dropped it."""
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
        raise Unavailable(f"{database} drops every session at once; nothing was done")

    # Transactions

    async def transact(
        self, names: Sequence[str], decide: Decide[T], owners: Sequence[str] = ()
    ) -> Committed[T]:
        """Read these rows, and write what is decided on. ``decide`` may be called several times.

        Where the commit has no reply, the next transaction for one of these owners comes after it.
        """
        for owner in owners:
            if owner in self._unresolved:
                await self._reset(self._unresolved[owner])
                self._unresolved.pop(owner, None)
        give_up = self._give_up()

        async def attempts(session: Session) -> Committed[T]:
            aborted = 0
            while True:
                try:
                    return await self._attempt(session, names, decide, owners)
                except Aborted as error:
                    aborted += 1
                    if not await back_off(self._world, aborted, AGAIN_MIN_S, AGAIN_MAX_S, give_up):
                        words = "conflicted with others on every attempt; nothing was done"
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
        self._unresolved.update(dict.fromkeys(owners, session))
        try:
            micros = await wire.commit(session.name, transaction, writes)
        except (Aborted, SessionMissing, Unavailable, Misconfigured):
            self._clear_unresolved(owners)
            raise
        self._clear_unresolved(owners)
        return Committed(answer, asked_at, micros)

    def _clear_unresolved(self, owners: Sequence[str]) -> None:
        for owner in owners:
            self._unresolved.pop(owner, None)

    def _abandon(self, session: Session, owners: Sequence[str]) -> None:
        """Forget a session in which a transaction may be open, and reset it unless owners will."""
        self._pool.forget(session)
        if not any(self._unresolved.get(owner) is session for owner in owners):
            try:
                self._world.spawn(self._reset_later(session), "fencelock-spanner-reset")
            except RuntimeError:
                pass  # no thread, or no loop any more: Spanner aborts what is idle for 10 s

    async def _reset(self, session: Session) -> None:
        """Invalidate the open transaction of a session that is no longer used."""
        try:
            await self.wire.reset(session.name)
        except SessionMissing:
            pass  # the session is gone, and its transaction with it
        except Aborted as error:  # none of the three requests is known to raise it
            raise Unavailable(f"a session could not be reset: {error}") from error

    async def _reset_later(self, session: Session) -> None:
        try:
            await self._reset(session)
        except FencelockError:
            pass  # Spanner aborts what is idle for 10 s

    # The table

    async def ready(self) -> None:
        """Check that the table exists; create it if the settings allow that."""
        give_up, made = min(self._world.now() + CREATE_S, self._world.limit()), False
        while True:
            try:
                await self.look(rows.SIDE)
                return
            except TableMissing as error:
                if not self._settings.create:
                    raise Misconfigured(f"{error}: {ADVICE}") from error
            if self._world.now() + CHECK_S >= give_up:
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
            await sleep(self._world, CHECK_S)

    async def close(self) -> None:
        """Delete the idle sessions, if the server answers in time, and close."""
        delete = self.wire.delete_session
        idle = [partial(delete, session.name) for session in self._pool.drain()]
        if idle:
            await self._world.gather(idle, self._world.now() + CLOSE_S)
        self.close_nowait()

    def close_nowait(self) -> None:
        self.wire.close()
