"""Show people who holds an advisory lock: the server itself knows only its process.

Taking and leaving a lock writes nothing, so most locks are never shown: only what is still held
after a moment is written to ``_holders``. Whoever looks waits for that moment, when the server has
a lock of a session that calls itself as ours do and no row says whose it is.

A renewal writes the whole row, and one that is shown after that leaves it alone: so it does not
matter which of the two comes first. The row is removed by the statement that gives the lock back.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import FencelockError
from ...model import Holding, State, Waiting
from ...world import World, sleep, snapshot
from .._sql.hold import Hold
from ..timer import NEVER
from .keys import key_of
from .rows import Rows, holding, integer, number
from .statements import Statement, Statements
from .wire import Session, Wire

SHOW_S = 0.05  # what is held for so long is shown
WAIT_S = 0.5  # how long to wait for the rows of others
LOOK_S = 0.02


class HolderTable:
    """What one client shows of its holds, and what it sees of all."""

    def __init__(
        self, world: World, wire: Wire, sql: Statements, holds: Mapping[str, Hold[Session]]
    ) -> None:
        self._world = world
        self._wire = wire
        self._sql = sql
        self._holds = holds
        self._busy = False
        """Locks were taken since we last looked: more will be, and need not wake anybody."""

    def add(self, hold: Hold[Session]) -> float:
        """A lock was taken; return when to look whether it is still held."""
        self._busy = True
        return hold.taken_at + SHOW_S

    async def show(self, until: float) -> float:
        """Write what was taken before a moment and is still held; return when to look again."""
        due: dict[Session, list[tuple[str, Hold[Session]]]] = {}
        soonest = self._world.now() + SHOW_S if self._busy else NEVER
        self._busy = False
        for owner, hold in snapshot(self._holds):
            if hold.shown:
                continue
            if hold.taken_at + SHOW_S > until:
                soonest = min(soonest, hold.taken_at + SHOW_S)
            else:
                hold.shown = True  # from now on whoever gives it back removes the row
                due.setdefault(hold.session, []).append((owner, hold))
        for session, some in due.items():
            try:
                await self._write(session, some)
            except FencelockError:
                pass  # who looks then sees nothing of it; the next renewal writes it
        return soonest

    async def _write(self, session: Session, some: list[tuple[str, Hold[Session]]]) -> None:
        now = self._world.now()
        remaining = [hold.until - now for _, hold in some]
        await session.execute(self._sql.show, *columns(some, now), remaining)
        gone = [(hold.name, owner) for owner, hold in some if owner not in self._holds]
        if gone:  # given back in between, perhaps before its row was written
            names, owners = map(list, zip(*gone, strict=True))
            await session.execute(self._sql.hide, names, owners)

    async def state(self, name: str) -> State:
        """Who holds a lock, and who waits for it in the server."""
        holders = await self._read(self._sql.holder, name, key_of(name))
        waiters = await self._wire.execute(self._sql.waiters, key_of(name))
        waiting = [Waiting(max(0.0, number(age)), {"pid": integer(pid)}) for age, pid in waiters]
        return State(name, tuple(map(holding, holders)), tuple(waiting))

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders of names that begin so."""
        return [holding(row) for row in await self._read(self._sql.scan, prefix, None)]

    async def _read(self, statement: Statement, value: str, key: int | None) -> Rows:
        """What the rows say, once nobody's are missing any more."""
        await self.show(NEVER)
        give_up = self._world.now() + WAIT_S
        while True:
            rows = await self._wire.execute(statement, value)
            if (rows and key is not None) or self._world.now() >= give_up:
                return rows
            if not integer((await self._wire.execute(self._sql.not_shown, key))[0][0]):
                return await self._wire.execute(statement, value)
            await sleep(self._world, LOOK_S)


def columns(some: list[tuple[str, Hold[Session]]], now: float) -> list[list[object]]:
    """What is shown of some holds, as the statements take it."""
    rows = [(h.name, o, h.key, h.fence, h.ttl, now - h.taken_at, h.meta) for o, h in some]
    return [list(column) for column in zip(*rows, strict=True)]
