"""Keep the etcd leases of one client alive while they are needed; no key outlives its own end.

Keys of equal ttl share one etcd lease, so an acquire need not grant one. Sharing has a price: a
keep-alive for one key keeps all. So each key has an end of its own here, and every extension of a
lease first deletes the keys on it that are past theirs. A process that dies extends nothing, and
etcd expires its lease; a process that lives deletes the keys that it has stopped renewing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...wires.single_flight import SingleFlight
from ...world import Job, World, snapshot
from .cluster import Cluster, LeaseGone
from .keys import delete_own
from .messages import replies, requests
from .messages.requests import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE, TXN
from .own_key import Lease, OwnKey
from .wire import RENEWAL

EXTEND = 1 / 3  # of its ttl: the background job extends a lease after that
IDLE_S = 300.0  # an unused lease is kept this long, so that the next acquire is quick
NAP_S = 0.5
LATE_S = 15.0  # how long an unanswered request may still take effect once etcd serves
NEVER = inf
CLOSE_S = 2.0
TRIES = 3
KEPT_MAX = 64


class Leases:
    """All leases of one client."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        look: Callable[[], None],
        wanted: Callable[[], bool],
    ) -> None:
        """``look`` is called every NAP_S while there is a lease or ``wanted()`` is true."""
        self._world = world
        self._cluster = cluster
        self._look = look
        self._wanted = wanted
        self.on_expired: Callable[[OwnKey], None] = self.expect_late
        """Called with each key that was deleted because it was not renewed."""
        self._by_ttl: dict[int, Lease] = {}
        self.ready: dict[float, Lease] = {}
        """The last used lease, by the ttl of the request, before rounding."""
        self._all: dict[Lease, None] = {}
        self._mutex = world.mutex()
        self._flights = SingleFlight(world)
        self._wake = world.signal()
        self.job: Job | None = None
        self._closing = False

    async def fresh(self, ttl: float) -> Lease:
        """Return a lease for this ttl that was just granted or just extended."""
        lease = await self._find(ceil(ttl))
        if len(self.ready) >= KEPT_MAX:
            self.ready.clear()
        self.ready[ttl] = lease
        return lease

    async def _find(self, whole: int) -> Lease:
        while True:
            lease, now = self._by_ttl.get(whole), self._world.now()
            if lease is None or lease.ended or lease.ends_at <= now:
                await self._flights.do(whole, lambda: self._grant(whole))
                continue
            lease.used_at = now
            if lease.wants_extension(now):
                try:
                    await self.extend(lease)
                except LeaseGone:
                    continue
            return lease

    async def _grant(self, whole: int) -> None:
        now = self._world.now()
        try:
            granted = await self._cluster.call(LEASE_GRANT, requests.lease_grant(whole))
        except OutcomeUnknown as error:  # a lease without a key is harmless, and expires by itself
            raise Unavailable(
                f"etcd did not say whether it made a lease for this client ({error}); the lock was "
                "not asked for, and nothing is held"
            ) from error
        reply = replies.read_lease(granted)
        made = Lease(reply.id, float(reply.ttl), now)
        with self._mutex:
            self._by_ttl[whole] = made
            self._all[made] = None

    async def extend(self, lease: Lease) -> None:
        """Send a keep-alive for a lease, after deleting the keys on it that are past their own end;
        LeaseGone if the lease has ended."""
        lease.tried_at = self._world.now()
        await self._delete_expired(lease)
        asked_at, epoch = self._world.now(), self._cluster.epoch
        request = requests.lease_named(lease.id)
        within = min(self._cluster.try_s, max(lease.ttl / 4, 0.5))
        reply = await self._cluster.call(
            LEASE_KEEP_ALIVE, request, reads=True, channel=RENEWAL, within=within
        )
        if replies.read_lease(reply).ttl <= 0:
            self.end(lease)
            raise LeaseGone
        lease.extended(asked_at, epoch)

    async def extend_confirmed(self, lease: Lease, look: bytes = b"") -> bytes:
        """Extend a lease, then send ``look``, a transaction that only reads, to the same member to
        confirm that it is no former leader; return the reply."""
        for _ in range(TRIES):
            await self.extend(lease)
            epoch, extension = self._cluster.epoch, lease.extension
            reply = await self._cluster.call(TXN, look, reads=True)
            if lease.confirm(epoch, extension) and epoch == self._cluster.epoch:
                return reply
        raise Unavailable("one member of etcd after the other failed. Try again")

    def end(self, lease: Lease) -> None:
        """Forget a lease that has ended, and wake the waiters whose keys were on it."""
        lease.ended = True
        self._all.pop(lease, None)
        for own in list(lease.keys.values()):
            own.wake(self._world.now())

    def ended(self, lease: Lease) -> LeaseGone:
        """Forget a lease that a request found to have ended, and return the error to raise."""
        self.end(lease)
        return LeaseGone("the etcd lease of this client had ended; nothing happened. Try again")

    def start(self) -> None:
        """Start the job that extends leases and deletes expired keys, unless it is running."""
        with self._mutex:
            if self.job is None and not self._closing:
                self.job = self._world.keep(self._run, "fencelock-etcd")

    def expect_late(self, own: OwnKey) -> None:
        """Have a key deleted that an unanswered put may still create."""
        own.lease.late_keys[own.key] = (own.value, NEVER)

    def close_nowait(self) -> None:
        """Stop the background job without waiting."""
        self._closing = True
        self._wake.set()

    async def close(self) -> None:
        """Stop the background job, and revoke the leases without a key."""
        self.close_nowait()
        if self.job is not None:
            await self.job.join(self._world.now() + CLOSE_S)
        for lease in list(self._all):
            if not lease.keys:
                await self._revoke(lease)

    async def _run(self) -> None:
        while self._goes_on():
            await self._world.wait(self._wake, self._world.now() + NAP_S)
            self._look()
            for lease in list(self._all):
                try:
                    if not self._closing:
                        await self._maintain(lease)
                except Exception:  # holders and waiters get the same error themselves
                    continue
        self._look()

    def _goes_on(self) -> bool:
        """Return whether the job has anything to do; if not, ``job`` is None at once. Under the
        mutex, as in ``start``."""
        with self._mutex:
            if self._closing or not (self._all or self._wanted()):
                self.job = None
            return self.job is not None

    async def _maintain(self, lease: Lease) -> None:
        now = self._world.now()
        await self._delete_expired(lease)
        if lease.keys or lease.late_keys or now < lease.used_at + IDLE_S:
            if now - max(lease.alive_at, lease.tried_at) >= lease.ttl * EXTEND:
                await self.extend(lease)
        else:
            self.end(lease)  # first: who registers a key on it looks at this then
            if not lease.keys:
                await self._revoke(lease)

    async def _delete_expired(self, lease: Lease) -> None:
        """Delete keys that are past their end. After an error the lease must not be extended."""
        now = self._world.now()
        for own in list(lease.keys.values()):
            if not self._is_expired(own):
                continue
            for deletion in own.deletions(on_lease=True):
                await self._cluster.call(TXN, deletion, channel=RENEWAL)
            self.on_expired(own)
            own.wake(self._world.now())
        for key, (value, until) in snapshot(lease.late_keys):
            deletion = delete_own(key, value, lease.id)
            await self._cluster.call(TXN, deletion, channel=RENEWAL)
            if until == NEVER:  # an earlier put may take effect after this, but not much
                lease.late_keys[key] = (value, self._world.now() + LATE_S)
            elif until <= now:
                lease.late_keys.pop(key, None)

    def _is_expired(self, own: OwnKey) -> bool:
        """Return whether a key is past its end; if so, nobody extends it or uses it any more."""
        if not own.deleting and own.until > self._world.now():
            return False
        with self._mutex:
            before, own.deleting = own.deleting, True
            own.deleting = before or own.until <= self._world.now()
            return own.deleting

    async def _revoke(self, lease: Lease) -> None:
        try:
            await self._cluster.call(LEASE_REVOKE, requests.lease_named(lease.id))
        except FencelockError:
            pass  # it expires by itself
