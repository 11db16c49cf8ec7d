"""Several locks in one statement, which takes all of them or none (``sql/several.sql``)."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Misconfigured
from ...model import Busy, Grant, Request, Together, granted
from ...world import World
from .rows import integer, string
from .statements import Statements
from .wire import Wire

LOOK_S = 60.0  # the listener wakes all waiters; this is the fallback


class Several:
    """The requests of one client for several locks at once."""

    def __init__(self, world: World, wire: Wire, sql: Statements) -> None:
        self._world = world
        self._wire = wire
        self._sql = sql
        self._usable = True
        """Whether the function exists: where the role may not create it, locks are taken singly."""

    async def acquire(self, requests: Sequence[Request]) -> Together:
        """Take all, or return one that is held; None where each must be requested singly."""
        if not self._usable:
            return None
        names, owners, ttls, *_ = map(list, zip(*requests, strict=True))
        asked_at = self._world.now()
        take = (self._sql.take_together, names, owners, ttls, requests[0].meta, self._wire.alone)
        try:
            # Later statements of the first owner run after this; it is the first to be withdrawn.
            rows = await self._wire.execute(*take, owner=requests[0].owner)
        except Misconfigured:
            self._usable = False
            return None
        if len(rows) < len(requests):
            return (
                (string(rows[0][0]), Busy(LOOK_S, None, False, string(rows[0][2])))
                if rows
                else None
            )
        return [
            granted(request.name, request.owner, integer(row[1]), request.ttl, asked_at)
            for request, row in zip(requests, rows, strict=True)
        ]

    async def release(self, grants: Sequence[Grant]) -> dict[str, bool]:
        """Release the locks that nobody waits for; return their owners, as the keys of a dict."""
        names, owners, *_ = map(list, zip(*grants, strict=True))
        rows = await self._wire.execute(self._sql.give_back_all, names, owners, owner=owners[0])
        return {string(row[0]): True for row in rows}
