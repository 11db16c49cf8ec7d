"""``mode=advisory``: ``GET_LOCK`` on a session, which any other user of the same name respects.

The server grants a lock to a session, and grants it a second time to the same session. So this
client first decides among its own callers who holds a name and who waits for it; one of them sends
a request. The waiting is done in the server's own queue: a waiter blocks there for a moment by
itself, since most holds are short, and after that one session waits in the background for all
callers that want the name (``wait_queues.py``). The held locks are in ``held_locks.py``, the
requests under way in ``lock_requests.py``, and the statements for either server in ``get_lock.py``.

The fence comes with the lock in the same packet, from a sequence (MariaDB) or a counter in the
server's memory (MySQL), which each new session raises above the clock and above a durable mark.
Both sides end a lease: the client by a timer that releases expired locks, and the server, which
ends a session that is idle for longer than its locks may last.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Address, Verification
from ...errors import Unsupported
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World, sleep
from .engine import MysqlEngine
from .get_lock import GetLockSql, identity_lock
from .held_locks import HeldLocks
from .holder_table import HolderTable
from .lock_requests import LockRequests
from .names import lock_name
from .server import CLUSTER_ADVICE, Server
from .wait_queues import WaitQueue, WaitQueues
from .wire.pool import Pool
from .wire.session_pool import Session, SessionHold, SessionPool, idle_limit

MOMENT_S = 0.03  # how long a waiter blocks by itself
BLOCK_S = 5  # how long one statement waits in the server's queue
FREE_S = 0.0005  # a lock that is granted so soon was free
LOOK_S = 5.0
POLL_S = 0.05  # where more names are waited for than sessions may wait
CLAIM_S = 0.5  # how long a waiter has to claim the lock that a session got for it
CLOSE_S = 2.0
CONTENDED_MAX = 1000


class AdvisoryEngine(MysqlEngine):
    """Locks of sessions."""

    session_bound = True
    traits = Traits("correctness", "network", fence=True, push=True, revoke=False, scan=False)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        settings = self.settings
        sql = self._sql = GetLockSql(settings.table)
        self._pool = Pool(world, settings, self.wire, 1)
        self._table = HolderTable(world, self._pool, sql)
        self._sessions = SessionPool(world, settings, self.wire, sql, self._ended)
        self._queues = WaitQueues(world, self._pool, self._fetch)
        freed = self._queues.wake_first
        self._held = HeldLocks(world, settings, self._sessions, self._table, sql, freed)
        self._requests = LockRequests(world, self._sessions, self._held, sql)
        self._contended: set[str] = set()
        self._closing = False

    def traits_on(self, server: Server) -> Traits:
        traits = AdvisoryEngine.traits
        if server.is_cluster:
            return traits._replace(safety="efficiency", advice=CLUSTER_ADVICE)
        return traits

    def begin(self, server: Server) -> None:
        self._sql.is_mariadb = server.is_mariadb

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        lock = lock_name(request.name)
        await self._requests.settled(lock, request.owner)
        if request.queue:  # before the lookup: a release wakes only those that are queued
            self._queues.join(lock, request)
        hold = self._held.get(lock)
        if hold is not None:
            if hold.owner == request.owner:
                if (grant := await self._claim(hold, request)) is not None:
                    return grant
            elif self._held.is_alive(hold):
                return self._busy(request, lock, hold.meta)
            else:
                await self._held.free(hold)
        if request.queue:
            return await self._wait_in_queue(request, lock)
        wait = MOMENT_S if request.waits and lock in self._contended else 0.0
        if wait and self._queues.has(lock):
            return Busy(LOOK_S)  # the caller retries at once, to join the queue
        grant = await self._requests.take(request, lock, wait)
        if grant is None:
            return self._refuse(request, lock)
        if wait:
            self._judge(lock, grant)
        return grant

    def _judge(self, lock: str, grant: Grant) -> None:
        """Forget that a lock was contended if its grant came without a wait."""
        if self.world.now() - grant.asked_at < FREE_S:
            self._contended.discard(lock)

    def _busy(self, request: Request, lock: str, meta: str, look_in: float = 0.0) -> Busy:
        position = self._queues.join(lock, request) if request.queue else None
        return Busy(look_in or LOOK_S, position, request.queue, meta)

    def _refuse(self, request: Request, lock: str) -> Busy:
        if not request.waits:
            return Busy(POLL_S)
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add(lock)
        return Busy(LOOK_S)

    async def _claim(self, hold: SessionHold, request: Request) -> Grant | None:
        """Confirm a hold that its owner requests again, or that a session got for the owner."""
        now = await self._held.confirm(hold, request.ttl)
        if now is None:
            return None
        self._queues.leave(hold.lock, request.owner)
        return granted(request.name, request.owner, hold.fence, request.ttl, now)

    # Wait

    async def _wait_in_queue(self, request: Request, lock: str) -> Grant | Busy:
        """Wait in the server's queue if first in ours: for a moment here, then by a session."""
        if not self._queues.is_first(lock, request):
            return self._busy(request, lock, "")
        grant = await self._requests.take(request, lock, MOMENT_S)
        if grant is not None:
            self._queues.leave(lock, request.owner)
            self._judge(lock, grant)
            return grant
        waits = self._queues.send_session(lock, len(self._queues) < self.settings.pool)
        return self._busy(request, lock, "", LOOK_S if waits else POLL_S)

    async def _fetch(self, lock: str, queue: WaitQueue) -> bool:
        """Wait in the server's queue for a lock, and hand it to the first waiter of a queue here.

        Return whether to call this again.
        """
        request = queue.first()
        if request is None or lock in self._held:
            return False
        limit = idle_limit(request.ttl)
        one = self._requests.begin(lock, request._replace(owner=""))  # for the first one by then
        if one is None:
            # Another caller of this client requests it, without waiting or for a moment only.
            await sleep(self.world, MOMENT_S)
            return True
        try:
            lent = await self._sessions.lend(limit, spare=True)
            queue.identity_lock = identity_lock(lent.session.number)
            try:
                fence = await self._requests.get_lock(lent.session, lock, limit, BLOCK_S)
                if fence:
                    await self._hand_over(lent.session, lock, queue, fence)
                return not fence
            finally:
                await queue.end_kills()
                self._sessions.give_back(lent)
        finally:
            self._requests.end(one)

    async def _hand_over(self, session: Session, lock: str, queue: WaitQueue, fence: int) -> None:
        request, now = queue.first(), self.world.now()
        if request is None:  # all have left
            await self._requests.let_go(session, lock)
            return
        self._held.add(session, request, lock, fence, now, now + CLAIM_S)
        self._queues.wake(request.owner)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._queues.watch(lock_name(request.name), request, signal)

    async def unwatch(self, request: Request) -> None:
        self._queues.unwatch(request.owner)

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        extended = await self._held.extend(grants)
        return [self._answer(grant, extended.get(grant.owner)) for grant in grants]

    def _answer(self, grant: Grant, renewed: Grant | None) -> Grant | Gone:
        if renewed is not None:
            return renewed
        if self._held.of(grant.name, grant.owner) is not None:
            return grant  # its session has not answered yet: the lease ends when it did before
        return Gone("session", "the session that carried it has ended, or gave it back")

    def _ended(self, session: Session) -> None:
        """Handle the end of a session: forget its locks, and tell their owners."""
        holds = list(session.holds.values())
        for hold in holds:
            self._held.forget(hold)
        if holds and not self._closing and self.on_gone is not None:
            owners = {hold.owner for hold in holds}
            self.on_gone(owners, Gone("session", "the session that carried it has ended"))

    # Release

    async def release(self, grant: Grant) -> bool:
        if (hold := self._held.of(grant.name, grant.owner)) is not None:
            return await self._held.free(hold)
        if self._sessions.abandoned:
            await self._pool.end_abandoned(self._sessions.abandoned)
        return False

    async def withdraw(self, request: Request) -> None:
        lock = lock_name(request.name)
        await self._requests.settled(lock, request.owner)
        await self._queues.withdraw(lock, request.owner)
        hold = self._held.of(request.name, request.owner)
        if hold is not None:
            await self._held.free(hold)
        elif self._sessions.abandoned:
            await self._pool.end_abandoned(self._sessions.abandoned)

    # Inspect, and what this mode does not offer

    async def inspect(self, name: str) -> State:
        holding = self._held.holding(name) or await self._table.holding(name)
        return State(name, () if holding is None else (holding,))

    async def scan(self, prefix: str) -> list[Holding]:
        raise Unsupported(
            "mode=advisory cannot list locks: ask for one name with holders(), or use mode=lease"
        )

    async def revoke(self, name: str, reason: str) -> bool:
        raise Unsupported(
            "mode=advisory cannot revoke a lock: end the session of its holder with KILL, whose "
            "number inspect() shows, or use mode=lease"
        )

    def verification(self, grant: Grant) -> Verification:
        raise Unsupported("mode=advisory cannot be asked within a transaction: use mode=lease")

    # Close

    async def close(self) -> None:
        self._closing = True
        self._held.expiry.close_nowait()
        await self._queues.close(self.world.now() + CLOSE_S)
        await self._held.expiry.close()
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closing = True
        self._held.expiry.close_nowait()
        self._queues.close_nowait()
        self._sessions.close()
        self._pool.close()
