"""``mode=lease``: a lock is a row with an end, tied to no session.

The protocol is that of ``memory.py``. A free lock that nobody waits for is taken by one statement
and released by one; all other cases are decided by one packet that locks the row of the name first
(``lease_sql.py``). The client that hands a lock to a waiter in another process wakes that process
(``listener.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...engine import EVERY_PROMISE, Address, Engine, Verification
from ...errors import FencelockError
from ...model import Busy, Gone, Grant, Holding, Request, Share, State, Traits, granted, renewed
from ...world import Signal, World
from . import lease_sql
from .cleanup import Cleanup
from .engine import MysqlEngine
from .lease_sql import LeaseSql
from .listener import Listener
from .memos import Memos
from .observers import Observers
from .server import Server
from .shares import Shares
from .wire.pool import Pool

LOOK_S = 60.0  # the listener wakes all waiters; this is the fallback
CONTENDED_MAX = 1000
KNOWN_S = 30.0  # half of the time for which the row of a free name stays
KNOWN_MAX = 10_000


class LeaseEngine(MysqlEngine):
    """The protocol of leased rows."""

    traits = EVERY_PROMISE

    @classmethod
    def chosen(cls, address: Address) -> type[Engine]:
        """Return the engine of the ``mode`` option; without one, this one."""
        if address.options.get("mode") == "advisory":
            from .advisory import AdvisoryEngine

            return AdvisoryEngine
        return cls

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        settings, wire = self.settings, self.wire
        self._sql = LeaseSql(settings.table)
        self._pool = Pool(world, settings, wire, settings.pool, orderly=True)
        self._renewals = Pool(world, settings, wire, 1)
        self._listener = Listener(world, settings, wire, self._sql, self._decline)
        self._shares = Shares(world, settings, wire, self._sql, self._pool, self._renewals)
        self._memos = Memos(self._pool, settings.table, self._shares.have_tables)
        self._observers = Observers(world, self._memos)
        self._contended: dict[str, bool] = {}
        """Names that others wait for, too; True where the ``queued`` flag was seen up."""
        self._known_until: dict[str, float] = {}
        """Until when the row of a name is certain to exist, by name."""
        self._cleanup = Cleanup(world, settings, wire, "locks", self._settle)

    def traits_on(self, server: Server) -> Traits:
        traits = LeaseEngine.traits._replace(shared=server.skips_locked)
        if server.durable:
            return traits
        advice = "set innodb_flush_log_at_trx_commit=1: without it a power cut forgets grants"
        return traits._replace(safety="efficiency", durable=False, advice=advice)

    def begin(self, server: Server) -> None:
        for cleanup in (self._cleanup, self._shares.cleanup):
            cleanup.begin(server.skips_locked)

    async def close(self) -> None:
        for part in (self._listener, self._shares, self._observers, self._cleanup):
            await part.close()
        self.close_nowait()

    def close_nowait(self) -> None:
        for part in (self._listener, self._shares, self._observers, self._cleanup):
            part.close_nowait()
        self._pool.close()
        self._renewals.close()

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            return await self._shares.acquire(request, request.share)
        name, now, notified = request.name, self.world.now(), False
        if not request.queue:
            if request.waits and name in self._contended:
                return Busy(LOOK_S)  # the caller retries at once, to join the queue
            if fence := await self._take(request, now):
                return granted(name, request.owner, fence, request.ttl, now)
            if request.waits:
                self._expect_a_queue(name)
                return Busy(LOOK_S)
        elif notified := self._listener.was_notified(request.owner):
            replies = await self._pool.query(self._sql.claim(request))
            if fence := replies[1].insert_id:
                return granted(name, request.owner, fence, request.ttl, now)
        elif self._listener.is_new(request.owner) and (busy := await self._join_queue(request)):
            return busy
        return await self._queue_or_take(request, now, notified)

    async def _take(self, request: Request, now: float) -> int:
        """Take a free lock that nobody waits for; 0 when it is not free."""
        if now < self._known_until.pop(request.name, 0.0):
            (reply,) = await self._pool.query(self._sql.take_known(request))
            if reply.insert_id or request.waits:
                return reply.insert_id
        (reply,) = await self._pool.query(self._sql.take(request))
        return reply.insert_id

    async def _join_queue(self, request: Request) -> Busy | None:
        """Join the queue of a lock that is held; None when ``queue_or_take`` has to decide."""
        flagged = self._contended.get(request.name, False)
        sql = self._sql.join_queue(request, self._listener.inbox, flagged)
        ahead = lease_sql.read_ahead(await self._pool.query(sql))
        self._expect_a_queue(request.name, ahead is not None)
        return None if ahead is None else Busy(LOOK_S, ahead, True)

    async def _queue_or_take(self, request: Request, now: float, in_vain: bool) -> Grant | Busy:
        """Decide, with the row of the name locked, whether to take the lock or to wait."""
        sql = self._sql.queue_or_take(request, self._listener.inbox)
        turn = lease_sql.read_turn(await self._pool.query(sql, wakes=True))
        if turn.ours:
            return granted(request.name, request.owner, turn.fence, request.ttl, now)
        self._listener.notify(turn.next_owner)
        if request.queue:
            self._listener.resume(in_vain)
        look_in = LOOK_S if request.queue else min(turn.left_s, LOOK_S)
        return Busy(look_in, turn.ahead, request.queue, turn.meta)

    def _expect_a_queue(self, name: str, flagged: bool = False) -> None:
        """Remember that the fast path would fail for a name, until a call finds no queue."""
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended[name] = flagged

    # Wait

    async def watch(self, request: Request, signal: Signal) -> None:
        self._listener_of(request).watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._listener_of(request).unwatch(request.owner)

    def _listener_of(self, request: Request) -> Listener:
        return self._listener if request.share is None else self._shares.listener

    async def _decline(self, owner: str) -> None:
        """Return at once what was handed to an owner of ours that no longer waits."""
        try:
            replies = await self._pool.query(self._sql.decline(owner), wakes=True)
        except FencelockError:
            return  # it is notified again, or it lapses
        self._listener.notify(lease_sql.read_next(replies))

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        shares = [grant for grant in grants if grant.share is not None]
        if not shares:
            return await self._renew(grants)
        locks = [grant for grant in grants if grant.share is None]
        answers = await self._shares.renew(shares) + (await self._renew(locks) if locks else [])
        by_owner = dict(zip([grant.owner for grant in shares + locks], answers, strict=True))
        return [by_owner[grant.owner] for grant in grants]

    async def _renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        replies = await self._renewals.query(self._sql.renew(grants))
        self._cleanup.start_if_due(now)
        return lease_sql.read_renewals(replies, renewed(grants, now))

    # Release

    async def end_in(self, grant: Grant, seconds: float) -> bool:
        if grant.share is not None:
            return await self._shares.end_in(grant, seconds)
        # A renewal can only extend the end in the row of the lock.
        (reply,) = await self._pool.query(self._sql.end_in(grant, seconds))
        return reply.affected > 0

    async def release(self, grant: Grant) -> bool:
        return await self._leave(grant.name, grant.owner, grant.share)

    async def withdraw(self, request: Request) -> None:
        await self._leave(request.name, request.owner, request.share)

    async def _leave(self, name: str, owner: str, share: Share | None) -> bool:
        if share is not None:
            return await self._shares.leave(name, owner, share)
        if name not in self._contended:
            (reply,) = await self._pool.query(self._sql.release(name, owner))
            if reply.affected:
                now = self.world.now()
                self._remember_row(name, now)
                if now >= self._cleanup.due_at:
                    self._cleanup.start_if_due(now)
                return True
        else:
            tell = self._listener.has_waiters
            sql = self._sql.hand_over(name, owner, tell)
            replies = await self._pool.query(sql, wakes=True)
            if replies[2].affected:
                if tell:
                    self._listener.notify(lease_sql.read_next(replies))
                return True
        return await self._take_out(name, owner, self._pool)

    async def _take_out(self, name: str, owner: str, pool: Pool) -> bool:
        """Remove an owner from a lock and its queue; return whether it held the lock."""
        left = lease_sql.read_leave(await pool.query(self._sql.leave(name, owner), wakes=True))
        next_owner = left.next_owner
        if left.free_with_flag:
            try:
                replies = await pool.query(self._sql.lower_flag(name), wakes=True)
                next_owner = lease_sql.read_next(replies)
            except FencelockError:
                pass  # the next request for the name does it
        if not self._listener.notify(next_owner):
            self._contended.pop(name, None)
        return left.held

    def _remember_row(self, name: str, now: float) -> None:
        """Remember that the row of a name exists, as long as that is certain."""
        if len(self._known_until) >= KNOWN_MAX:
            self._known_until.clear()
        self._known_until[name] = now + KNOWN_S

    async def _settle(self, name: str, pool: Pool) -> None:
        """Settle the queue of a name that nobody has used for a while."""
        await self._take_out(name, "-", pool)

    # Inspect and administer

    async def revoke(self, name: str, reason: str) -> bool:
        replies = await self._pool.query(self._sql.revoke(name, reason), wakes=True)
        held, next_owner = lease_sql.read_revoke(replies)
        self._listener.notify(next_owner)
        return await self._shares.revoke(name, reason) or held

    async def inspect(self, name: str) -> State:
        holders, waiting = await self._pool.query(self._sql.state(name))
        state = State(
            name,
            tuple(map(lease_sql.read_holding, holders.rows)),
            tuple(map(lease_sql.read_waiting, waiting.rows)),
        )
        return await self._shares.inspect(state)

    async def scan(self, prefix: str) -> list[Holding]:
        (reply,) = await self._pool.query(self._sql.scan(prefix))
        holders = [*map(lease_sql.read_holding, reply.rows), *await self._shares.scan(prefix)]
        return sorted(holders, key=lambda one: one.name)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._memos.remember(name, item, number, keep)
        self._shares.cleanup.start_if_due(self.world.now())

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._memos.recall(name)

    async def forget(self, name: str) -> None:
        await self._memos.forget(name)

    async def announce(self, name: str) -> None:
        await self._memos.announce(name)

    async def observe(self, name: str, signal: Signal) -> None:
        await self._observers.observe(name, signal)

    async def unobserve(self, name: str, signal: Signal) -> None:
        self._observers.unobserve(name, signal)

    def verification(self, grant: Grant) -> Verification:
        if grant.share is not None:
            return self._shares.verification(grant)
        name, owner = grant.name.encode(), grant.owner.encode()
        return Verification(self._sql.verification, (name, owner, owner))
