"""The table of holders: who holds which lock by ``GET_LOCK``, for people to read.

The server knows only which session has a lock, and a session cannot publish more: its connection
attributes are fixed when it connects. So a hold is written to a table, but not at once: a commit
costs several times what ``GET_LOCK`` does, and most holds are short. A reader that finds a lock
held by a session of ours without a row waits for the row, which is about to be written.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import FencelockError
from ...model import Holding
from ...world import World, sleep
from .fair_mutex import FairMutex
from .get_lock import GetLockSql, HolderRow, read_holder
from .wire.pool import Pool
from .wire.session_pool import SessionHold

SHOW_S = 0.05  # a hold that lasts so long is written to the table
ON_ITS_WAY_S = 5.0
RETRY_S = 0.01


class HolderTable:
    """The table of holders."""

    def __init__(self, world: World, pool: Pool, sql: GetLockSql) -> None:
        self._world = world
        self._pool = pool
        self._sql = sql
        self._mutex = FairMutex(world)

    async def show(self, holds: Sequence[SessionHold]) -> None:
        """Write the rows of some holds; after a failure the next renewal tries again."""
        turn = await self._mutex.acquire(self._world.now() + ON_ITS_WAY_S)
        if turn is None:
            return
        try:  # one write at a time: an older row must not overwrite a newer one
            await self._show([hold for hold in holds if not hold.over])
        except FencelockError:
            pass  # until then a reader sees the session only
        finally:
            self._mutex.release(turn)

    async def _show(self, holds: Sequence[SessionHold]) -> None:
        now = self._world.now()
        for hold in holds:
            hold.shown = True  # before it is written: its release must delete the row
        if holds:
            rows = [
                HolderRow(
                    h.name,
                    h.owner,
                    h.session.number,
                    h.fence,
                    h.ttl,
                    now - h.taken_at,
                    max(0.0, h.until - now),
                    h.meta,
                )
                for h in holds
            ]
            await self._pool.query(self._sql.show(rows))

    async def holding(self, name: str) -> Holding | None:
        """Read who holds a name: the row, or only the session's id if it is not one of ours."""
        give_up = self._world.now() + ON_ITS_WAY_S
        while True:
            holding, row_to_come = read_holder(name, await self._pool.query(self._sql.holder(name)))
            if not row_to_come or self._world.now() >= give_up:
                return holding
            await sleep(self._world, RETRY_S)
