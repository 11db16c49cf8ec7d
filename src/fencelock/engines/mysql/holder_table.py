"""Who holds what by ``GET_LOCK``, for whoever wants to know.

The server knows only which session has a lock, and a session cannot say more of itself: its
attributes are those that it connected with. So a hold is written to a table, but not at once: a
commit costs several times what ``GET_LOCK`` does, and most holds are short. Whoever looks at a lock
and finds it held by a session of ours without a row waits for the row, which is on its way.
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

SHOW_S = 0.05  # a hold that lasts so long is written down
ON_ITS_WAY_S = 5.0
LOOK_S = 0.01


class HolderTable:
    """The table of holders."""

    def __init__(self, world: World, pool: Pool, sql: GetLockSql) -> None:
        self._world = world
        self._pool = pool
        self._sql = sql
        self._mutex = FairMutex(world)

    async def show(self, holds: Sequence[SessionHold]) -> None:
        """Write about some holds; what does not succeed is tried again by the next renewal."""
        turn = await self._mutex.acquire(self._world.now() + ON_ITS_WAY_S)
        if turn is None:
            return
        try:  # one after the other: an older row must not overwrite a newer one
            await self._show([hold for hold in holds if not hold.over])
        except FencelockError:
            pass  # who looks then sees the session only
        finally:
            self._mutex.release(turn)

    async def _show(self, holds: Sequence[SessionHold]) -> None:
        now = self._world.now()
        for hold in holds:
            hold.shown = True  # before it is: its release must see to the row
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
        """Read who holds a name: the row, or merely the session where it is not one of ours."""
        give_up = self._world.now() + ON_ITS_WAY_S
        while True:
            holding, row_to_come = read_holder(name, await self._pool.query(self._sql.holder(name)))
            if not row_to_come or self._world.now() >= give_up:
                return holding
            await sleep(self._world, LOOK_S)
