"""Who holds what by ``GET_LOCK``, for whoever asks.

The server knows only which session has a lock. So a hold is written to a table, but not at once: a
commit costs several times what ``GET_LOCK`` does, and most holds are short. Whoever asks about a
lock and finds it held by a session of ours without a row waits for the row, which is on its way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from ...errors import FencelockError
from ...model import Holding
from ...world import World, sleep
from .fair_mutex import Gate
from .literals import NOW, micros, text
from .names import lock_name
from .wire.pool import Pool
from .wire.session_pool import Hold, badge

SHOW_S = 0.05  # a hold that lasts so long is written down
ON_ITS_WAY_S = 5.0
LOOK_S = 0.01
LEFT_US = 60_000_000


@lru_cache(10_000)
def literal(lock: str) -> str:
    """The name of a lock of the server, for SQL."""
    return f"_utf8mb4 {text(lock)}"


class Holders:
    """The table of holders."""

    def __init__(self, world: World, pool: Pool, table: str) -> None:
        self._world = world
        self._pool = pool
        self._table = f"{table}_holders"
        self._gate = Gate(world)

    async def show(self, holds: Sequence[Hold]) -> None:
        """Write about some holds; what does not succeed is tried again by the next renewal."""
        turn = await self._gate.enter(self._world.now() + ON_ITS_WAY_S)
        if turn is None:
            return
        try:  # one after the other: an older word must not overwrite a newer one
            await self._show([hold for hold in holds if not hold.over])
        finally:
            self._gate.leave(turn)

    async def _show(self, holds: Sequence[Hold]) -> None:
        if not holds:
            return
        now = self._world.now()
        rows = ",".join(
            f"({text(h.name)},{text(h.owner)},{h.session.number},{h.fence},{micros(h.ttl)},"
            f"{NOW}-{micros(now - h.since)},{NOW}+{micros(max(0.0, h.until - now))},{text(h.meta)})"
            for h in holds
        )
        for hold in holds:
            hold.shown = True  # before it is: its release must see to the row
        try:
            await self._pool.ask(
                f"DELETE FROM {self._table} WHERE expires_at<{NOW}-{LEFT_US} LIMIT 100;"
                f"REPLACE INTO {self._table}"
                f" (name,owner,session,fence,ttl,since,expires_at,meta) VALUES {rows}"
            )
        except FencelockError:
            pass  # who asks then sees the session only

    def farewell(self, holds: Sequence[Hold]) -> str:
        """What to run before locks are given back."""
        owners = ",".join([text(hold.owner) for hold in holds if hold.shown])
        return f"DELETE FROM {self._table} WHERE owner IN ({owners});" if owners else ""

    async def holding(self, name: str) -> Holding | None:
        """Who holds a name: the row, or merely the session where it is not one of ours."""
        lock = literal(lock_name(name))
        sql = (
            # MySQL takes no NULL for a name, where MariaDB answers NULL.
            f"SET @s=IS_USED_LOCK({lock});SELECT @s,IS_USED_LOCK({badge('COALESCE(@s,0)')});"
            f"SELECT session,fence,ttl,{NOW}-since,expires_at-{NOW},meta FROM {self._table}"
            f" WHERE name={text(name)}"
        )
        give_up = self._world.now() + ON_ITS_WAY_S
        while True:
            _, used, rows = await self._pool.ask(sql)
            session, ours = used.rows[0]
            if session is None:
                return None
            for number, fence, ttl, age, left, meta in rows.rows:
                if number == session:
                    facts = (int(ttl or 0) / 1e6, int(age or 0) / 1e6, int(left or 0) / 1e6)
                    return Holding(name, int(fence or 0), *facts, json.loads(meta or b"{}"))
            if ours != session or self._world.now() >= give_up:
                return Holding(name, 0, 0.0, 0.0, 0.0, {"session": int(session)})
            await sleep(self._world, LOOK_S)
