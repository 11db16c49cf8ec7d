"""Semaphores and read/write locks in ``mode=lease``: names that several hold.

The protocol is that of ``memory.py``. Each kind and name has a row with the units that are free;
each holder has a row with an end, on the server's clock. Taking or releasing units locks the name's
row first, and reads no other holder's row (``sql/share_schema.sql``).

* **Fence**: as in ``lease.py``, from the name's row, and above the same floor.
* **Expiry**: the name's row has a moment before which no share ends. Only a request after that
  moment looks for shares that have ended.
* **Waiting**: freed units are handed to the first waiters, as long as they suffice for the first
  one, and the listener of each is notified of its fence and slot. A first waiter that needs more
  units keeps the others waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...engine import Verification
from ...model import Busy, Grant, Request, Share, granted, limits_differ
from ...world import World
from .listener import Listener
from .rows import Rows, flag, integer, number, string
from .statements import Statements
from .wire import Wire

CONTENDED_MAX = 1000
LOOK_S = 60.0


class Shares:
    """The protocol of leased shares."""

    def __init__(
        self,
        world: World,
        wire: Wire,
        sql: Statements,
        busy: Callable[[bool, float, int, str], Busy],
    ) -> None:
        self._world = world
        self._wire = wire
        self.sql = sql
        self._busy = busy
        self._contended: set[tuple[str, str]] = set()
        """Kinds and names with a queue: the fast path would fail for them."""
        self.listener: Listener | None = None

    async def usable(self) -> bool:
        """Return whether the tables exist and this role has rights on them.

        If not, the server refuses each request for a share and says why.
        """
        return flag((await self._wire.execute(self.sql.usable))[0][0])

    async def acquire(self, request: Request, share: Share) -> Grant | Busy:
        name, owner, ttl, meta, queue, waits, _, _ = request
        kind, units, limit, _ = share
        contended, asked_at, inbox = (kind, name) in self._contended, self._world.now(), ""
        if not queue and not contended:  # most are free
            take = (self.sql.take_free, name, kind, owner, units, limit, ttl, meta)
            fence, slot = (await self._wire.execute(*take, owner=owner))[0]
            if fence is not None:
                got = Share(kind, units, limit, None if slot is None else integer(slot))
                return granted(name, owner, integer(fence), ttl, asked_at, got)
            asked_at = self._world.now()
        if waits and not queue:
            return Busy(LOOK_S)  # the caller retries at once, to join the queue
        if queue and self.listener is not None:
            inbox = self.listener.inbox
            if self.listener.joins(owner) and (handed := self.listener.pushed_grant(request)):
                return handed
        acquire = (name, kind, owner, units, limit, ttl, meta, queue, inbox, self._wire.alone)
        rows = await self._wire.execute(self.sql.acquire, *acquire, owner=owner)
        fence, held, slot, theirs, remaining, position, holder = rows[0]
        if fence is not None:
            got = Share(kind, integer(held), limit, None if slot is None else integer(slot))
            return granted(name, owner, integer(fence), ttl, asked_at, got)
        if theirs is not None:
            raise limits_differ(name, integer(theirs), limit)
        self._expect_a_queue(kind, name)
        return self._busy(queue, number(remaining), integer(position), string(holder))

    def _expect_a_queue(self, kind: str, name: str) -> None:
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add((kind, name))

    async def renew(self, grants: Sequence[Grant], within: float) -> Rows:
        """Extend shares; return rows with the owners that still held theirs."""
        names, owners, _, ttls, _, _, shares = map(list, zip(*grants, strict=True))
        kinds = [share.kind for share in shares]
        return await self._wire.execute_soon(
            self.sql.renew, names, kinds, owners, ttls, within=within
        )

    async def leave(self, name: str, owner: str, share: Share) -> bool:
        """Leave the queue and release what is held; return whether anything was."""
        kind = share.kind
        if (kind, name) not in self._contended:
            rows = await self._wire.execute(self.sql.give_back, name, kind, owner, owner=owner)
            if flag(rows[0][0]):
                return True
        leave = (self.sql.leave, name, kind, owner, self._wire.alone)
        answer = integer((await self._wire.execute(*leave, owner=owner))[0][0])
        if not answer & 2:
            self._contended.discard((kind, name))
        return bool(answer & 1)

    def verification(self, grant: Grant, share: Share) -> Verification:
        values = (grant.name, share.kind, grant.owner, grant.fence)
        return Verification(self.sql.verify.sql, values)
