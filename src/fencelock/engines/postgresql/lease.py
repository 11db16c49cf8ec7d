"""``mode=lease``: a row with an end, on the server's clock.

The protocol is that of ``memory.py``. A free lock that nobody waits for is taken by one upsert and
released by one update; everything else is a function that first locks the name's row
(``sql/schema.sql``). The lease is not tied to a connection, so it survives the loss of one, and any
pooler may stand between client and server.

* **Fence**: the higher of the row's last fence + 1 and the server's clock in microseconds, in the
  same statement. The row stays for a minute after it was last used. When it is removed, the floor
  is raised to its fence first, and a new row begins above the floor. So a fence goes back only if
  the database is lost *and* its clock is set back.
* **Expiry** is judged when a request for the lock comes. A transaction that has verified its lease
  (``fencelock.sql.verify``) holds the row FOR KEY SHARE: renewals pass, a taker does not.
* **Waiting**: a release makes the first waiter the holder, and the listener of its client is
  notified of the fence and since when: so a contended lock costs each holder two statements, one to
  queue and one to release. The listener also has the lease of a dead holder handed on, at the
  moment when it ends. Where notifications cannot come through, waiters poll, those far behind in
  the queue less often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...engine import EVERY_PROMISE, Address, Engine, Verification
from ...model import (
    Busy,
    Gone,
    Grant,
    Holding,
    Request,
    Share,
    State,
    Together,
    granted,
    renewed,
)
from ...world import Signal, World
from .._sql.hold import renewal_timeout
from .engine import PostgresqlEngine
from .inspect import Inspector
from .listener import ANNOUNCED, Listener, changes
from .memos import Memos
from .rows import decode_busy, gone, integer, number, string
from .several import LOOK_S, Several
from .shares import Shares
from .statements import Statements

POLL_MIN_S, POLL_MAX_S = 0.02, 0.5  # without a listener
PROTECTED_S = 0.05  # how often to poll an expired lease that a transaction still protects
TIDY_EVERY = 1000  # grants between two removals of unused rows
CONTENDED_MAX = 1000


class LeaseEngine(PostgresqlEngine):
    """The protocol of leased rows."""

    plain = True
    traits = EVERY_PROMISE

    @classmethod
    def chosen(cls, address: Address) -> type[Engine]:
        """Return the engine of the ``mode`` and ``bound`` options; without them, this one."""
        mode, bound = address.options.get("mode"), address.options.get("bound")
        if mode == "advisory" and bound != "transaction":
            from .advisory import AdvisoryEngine

            return AdvisoryEngine
        if mode in ("advisory", "row"):
            from .row import RowEngine

            return RowEngine
        return cls

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        table, schema = self._settings.table, self._settings.schema
        self._sql = Statements("lease", table, schema)
        self._shares = Shares(world, self._wire, Statements("shares", table, schema), self._busy)
        self._memos = Memos(self._wire, Statements("memos", table, schema))
        self._several = Several(world, self._wire, self._sql)
        self._inspector = Inspector(self._wire, [self._sql])
        self._listener: Listener | None = None
        self._grants = 0
        self._contended: set[str] = set()
        """Names with a queue: the fast path would fail for them."""

    async def _open(self) -> None:
        await super()._open()
        direct = self._wire.direct or self._settings.listen is not None
        if await self._shares.usable():
            self._inspector.kinds = [self._sql, self._shares.sql]
        if self._settings.push and direct:
            self._listener = self._wire.listener(self.world, *self._inspector.kinds)
            self._shares.listener = self._listener
        else:
            self.traits = self.traits._replace(
                push=False, advice="name a way around the pooler with listen=host:port"
            )
        if not self._wire.direct:
            await self._see_durability()
        await self._inspector.of_all_kinds("tidy")

    async def _see_durability(self) -> None:
        """Check synchronous_commit, which a client behind a pooler cannot set by itself."""
        if string((await self._wire.execute(self._sql.durability))[0][0]) == "off":
            self.traits = self.traits._replace(
                safety="efficiency", durable=False, advice="turn synchronous_commit on"
            )

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        await super().close()

    def close_nowait(self) -> None:
        if self._listener is not None:
            self._listener.close_nowait()
        super().close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta, queue, waits, _, share = request
        if share is not None:
            answer = await self._shares.acquire(request, share)
            if type(answer) is Grant:
                await self._count()
            return answer
        asked_at = self.world.now()
        if waits and not queue and name in self._contended:
            return Busy(LOOK_S)  # the caller retries at once, to join the queue
        if not queue and name not in self._contended:  # most locks are free: one upsert
            rows = await self._wire.execute(
                self._sql.take_free, name, owner, ttl, meta, owner=owner
            )
            if rows:
                await self._count()
                return granted(name, owner, integer(rows[0][0]), ttl, asked_at)
            if waits:
                return Busy(LOOK_S)  # the caller retries at once, to join the queue
            asked_at = self.world.now()
        inbox = ""
        if self._listener is not None:
            inbox = self._listener.inbox
            joined = self._listener.joins(owner)
            if joined and (handed := self._listener.pushed_grant(request)) is not None:
                return handed
        if queue and name in self._contended:  # others wait: no need to lock the name's row
            join = (self._sql.join_queue, name, owner, ttl, meta, inbox)
            rows = await self._wire.execute(*join, owner=owner)
            if (busy := rows[0][0]) is not None:
                return self._busy(queue, *decode_busy(busy))
            asked_at = self.world.now()
        acquire = (self._sql.acquire, name, owner, ttl, meta, queue, inbox, self._wire.alone)
        rows = await self._wire.execute(*acquire, owner=owner)
        fence, remaining, position, holder = rows[0]
        if integer(fence):
            return granted(name, owner, integer(fence), ttl, asked_at)
        self._expect_a_queue(name)
        return self._busy(queue, number(remaining), integer(position), string(holder))

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        answer = await self._several.acquire(requests)
        if type(answer) is list:
            await self._count()
        return answer

    def _busy(self, queue: bool, remaining: float, position: int, holder: str) -> Busy:
        if remaining <= 0:
            look_in = PROTECTED_S
        elif self._listener is not None:
            look_in = LOOK_S
            if queue:
                self._listener.expect(remaining)
        else:
            look_in = min(POLL_MIN_S * (position + 1), POLL_MAX_S, remaining)
        return Busy(look_in, position if queue else None, queue, holder)

    async def _count(self) -> None:
        self._grants += 1
        if self._grants % TIDY_EVERY == 0:
            self.world.spawn(self._inspector.tidy(), "fencelock-tidy")

    def _expect_a_queue(self, name: str) -> None:
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add(name)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now, within = self.world.now(), renewal_timeout(grants)
        shares = [grant for grant in grants if grant.share is not None]
        locks = [grant for grant in grants if grant.share is None] if shares else grants
        rows = await self._shares.renew(shares, within) if shares else []
        if locks:
            names, owners, _, ttls, *_ = map(list, zip(*locks, strict=True))
            renew = (self._sql.renew, names, owners, ttls)
            rows += await self._wire.execute_soon(*renew, within=within)
        if len(rows) == len(grants):
            return [*renewed(grants, now)]
        kept = {string(row[0]) for row in rows}
        missing = [grant.owner for grant in grants if grant.owner not in kept]
        why = await self._wire.execute_soon(self._sql.why, missing, within=within)
        reasons = {string(owner): string(reason) for owner, reason in why}
        return [
            grant if grant.owner in kept else gone(reasons.get(grant.owner))
            for grant in renewed(grants, now)
        ]

    async def release(self, grant: Grant) -> bool:
        return await self._leave(grant.name, grant.owner, grant.share)

    async def release_all(self, grants: Sequence[Grant]) -> list[bool]:
        freed = await self._several.release(grants)
        return [grant.owner in freed or await self.release(grant) for grant in grants]

    async def withdraw(self, request: Request) -> None:
        if self._listener is not None:
            self._listener.leaves(request.owner)
        await self._leave(request.name, request.owner, request.share)

    async def _leave(self, name: str, owner: str, share: Share | None) -> bool:
        if share is not None:
            return await self._shares.leave(name, owner, share)
        short = name not in self._contended
        if short and await self._wire.execute(self._sql.give_back, name, owner, owner=owner):
            return True
        leave = (self._sql.leave, name, owner, self._wire.alone)
        answer = integer((await self._wire.execute(*leave, owner=owner))[0][0])
        if not answer & 2:
            self._contended.discard(name)
        return bool(answer & 1)

    async def watch(self, request: Request, signal: Signal) -> None:
        if self._listener is not None:
            await self._listener.watch(request.owner, signal)

    async def wait(self, signal: Signal, deadline: float) -> None:
        await (self._listener or self.world).wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
        return None if self._listener is None else self._listener.pushed_grant(request)

    async def unwatch(self, request: Request) -> None:
        if self._listener is not None:
            self._listener.unwatch(request.owner)

    async def leave_queue(self, request: Request) -> None:
        if self._listener is None or not self._listener.inbox:
            return  # a waiter that does not claim the lock is passed over
        self._listener.leaves(request.owner)
        kind = "" if request.share is None else request.share.kind
        where = (request.name, kind, request.owner, self._listener.inbox, self._wire.alone)
        await self._wire.execute(self._sql.leave_queue, *where, owner=request.owner)

    async def inspect(self, name: str) -> State:
        return await self._inspector.state(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._inspector.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._inspector.revoke(name, reason)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._memos.remember(name, item, number, keep)
        await self._count()

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._memos.recall(name)

    async def forget(self, name: str) -> None:
        await self._memos.forget(name)

    async def announce(self, name: str) -> None:
        channel, word = changes(self._settings.table), f"{ANNOUNCED} {name}"
        await self._wire.execute(self._sql.announce, channel, word)

    async def observe(self, name: str, signal: Signal) -> None:
        if self._listener is not None:
            await self._listener.observe(name, signal)

    async def unobserve(self, name: str, signal: Signal) -> None:
        if self._listener is not None:
            self._listener.unobserve(name, signal)

    def verification(self, grant: Grant) -> Verification:
        if grant.share is not None:
            return self._shares.verification(grant, grant.share)
        return Verification(self._sql.verify.sql, (grant.name, grant.owner, grant.fence))
