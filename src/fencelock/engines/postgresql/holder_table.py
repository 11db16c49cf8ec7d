"""Show people who holds an advisory lock: the server itself knows only the holder's process.

Locking and unlocking write nothing, so most locks are never shown: only a lock that is still held
after a moment is written to ``_holders``. A reader waits for that moment if a session with our
``application_name`` has a lock and no row names its owner.

A renewal writes the whole row, and a later ``show`` leaves that row alone: so it does not matter
which of the two comes first. The statement that unlocks removes the row.
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

SHOW_S = 0.05  # a lock that is held for so long is shown
WAIT_S = 2.0  # how long to wait for the rows of other clients
RETRY_S = 0.02


class HolderTable:
    """The table of holders: writes the rows of one client, and reads those of all."""

    def __init__(
        self, world: World, wire: Wire, sql: Statements, holds: Mapping[str, Hold[Session]]
    ) -> None:
        self._world = world
        self._wire = wire
        self._sql = sql
        self._holds = holds
        self._busy = False
        """Locks were taken since the last ``show``: more will be, and need not wake the timer."""

    def add(self, hold: Hold[Session]) -> float:
        """Note that a lock was taken; return when to check whether it is still held."""
        self._busy = True
        return hold.taken_at + SHOW_S

    async def show(self, until: float) -> float:
        """Write the holds that are ``SHOW_S`` old by then; return when to call this again."""
        due: dict[Session, list[tuple[str, Hold[Session]]]] = {}
        soonest = self._world.now() + SHOW_S if self._busy else NEVER
        self._busy = False
        for owner, hold in snapshot(self._holds):
            if hold.shown:
                continue
            if hold.taken_at + SHOW_S > until:
                soonest = min(soonest, hold.taken_at + SHOW_S)
            else:
                hold.shown = True  # from now on the statement that unlocks removes the row
                due.setdefault(hold.session, []).append((owner, hold))
        for session, some in due.items():
            try:
                await self._write(session, some)
            except FencelockError:
                pass  # the lock is not shown until its next renewal writes it
        return soonest

    async def _write(self, session: Session, some: list[tuple[str, Hold[Session]]]) -> None:
        now = self._world.now()
        remaining = [hold.until - now for _, hold in some]
        await session.execute(self._sql.show, *columns(some, now), remaining)
        gone = [(hold.name, owner) for owner, hold in some if owner not in self._holds]
        if gone:  # unlocked in between, perhaps before its row was written
            names, owners = map(list, zip(*gone, strict=True))
            await session.execute(self._sql.hide, names, owners)

    async def state(self, name: str) -> State:
        """Return who holds a lock, and who waits for it in the server's queue."""
        holders = await self._read(self._sql.holder, name, key_of(name))
        waiters = await self._wire.execute(self._sql.waiters, key_of(name))
        waiting = [Waiting(max(0.0, number(age)), {"pid": integer(pid)}) for age, pid in waiters]
        return State(name, tuple(map(holding, holders)), tuple(waiting))

    async def scan(self, prefix: str) -> list[Holding]:
        """Return all holders of names that begin with the prefix."""
        return [holding(row) for row in await self._read(self._sql.scan, prefix, None)]

    async def _read(self, statement: Statement, value: str, key: int | None) -> Rows:
        """Return the rows of a statement, once none is missing or ``WAIT_S`` has passed."""
        await self.show(NEVER)
        give_up = self._world.now() + WAIT_S
        while True:
            rows = await self._wire.execute(statement, value)
            if (rows and key is not None) or self._world.now() >= give_up:
                return rows
            if not integer((await self._wire.execute(self._sql.not_shown, key))[0][0]):
                return await self._wire.execute(statement, value)
            await sleep(self._world, RETRY_S)


def columns(some: list[tuple[str, Hold[Session]]], now: float) -> list[list[object]]:
    """Return the columns to show for some holds, as the statements take them."""
    rows = [(h.name, o, h.key, h.fence, h.ttl, now - h.taken_at, h.meta) for o, h in some]
    return [list(column) for column in zip(*rows, strict=True)]
