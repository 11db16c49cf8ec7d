"""The etcd leases of one client: kept alive while somebody needs them, and no key outstays its own.

Keys of equal ttl share one etcd lease, so an acquire need not make one. Sharing has a price: what
keeps one key alive keeps all. So each key has an end of its own here, and whoever extends a lease
first deletes the keys on it that are past theirs. A process that dies extends nothing, and etcd
ends its lease; a process that lives takes away what it has stopped renewing.

What is known of one lease and its keys is in ``tenancy.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, inf

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...world import Job, World
from . import replies, requests
from .link import LEASE_GRANT, LEASE_KEEP_ALIVE, LEASE_REVOKE, RENEWAL, TXN, LeaseGone, Link
from .once import Once
from .tenancy import Place, Session

EXTEND = 1 / 3  # the part of a ttl after which a lease is extended for those who wait
IDLE_S = 300.0  # a lease that nobody uses is kept this long, so that the next acquire is quick
NAP_S = 0.5
GHOST_S = 15.0  # how long a request without an answer may still take effect once etcd serves
NEVER = inf
CLOSE_S = 2.0
TRIES = 3
KEPT_MAX = 64


class Sessions:
    """All leases of one client."""

    def __init__(self, world: World, link: Link, look: Callable[[], None]) -> None:
        self._world = world
        self._link = link
        self._look = look
        self.reaped: Callable[[Place], None] = self.expect
        """Told of each key that was taken away because nobody renewed it."""
        self._by_ttl: dict[int, Session] = {}
        self.ready: dict[float, Session] = {}
        """The lease that was used last for a ttl as callers wish it; see whether it is fresh."""
        self._all: dict[Session, None] = {}
        self._mutex = world.mutex()
        self._once = Once(world)
        self._wake = world.signal()
        self.job: Job | None = None
        self._closing = False

    async def fresh(self, ttl: float) -> Session:
        """A lease for this ttl that has just begun or was just extended."""
        session = await self._found(ceil(ttl))
        if len(self.ready) >= KEPT_MAX:
            self.ready.clear()
        self.ready[ttl] = session
        return session

    async def _found(self, whole: int) -> Session:
        while True:
            session, now = self._by_ttl.get(whole), self._world.now()
            if session is None or session.ended or session.ends_at <= now:
                await self._once.do(whole, lambda: self._begin(whole))
                continue
            session.used_at = now
            if session.wants_extension(now):
                try:
                    await self.extend(session)
                except LeaseGone:
                    continue
            return session

    async def _begin(self, whole: int) -> None:
        now = self._world.now()
        try:
            granted = await self._link.call(LEASE_GRANT, requests.lease_grant(whole))
        except OutcomeUnknown as error:  # a lease without a key concerns nobody, and ends by itself
            raise Unavailable(
                f"etcd did not say whether it made a lease for this client ({error}); the lock was "
                "not asked for, and nothing is held"
            ) from error
        answer = replies.read_lease(granted)
        made = Session(answer.id, float(answer.ttl), now)
        with self._mutex:
            self._by_ttl[whole] = made
            self._all[made] = None

    async def extend(self, session: Session) -> None:
        """Have a lease last its ttl from now; what is past its own end goes first."""
        session.tried_at = self._world.now()
        await self._reap(session)
        asked_at, turn = self._world.now(), self._link.turn
        request = requests.lease_named(session.lease)
        within = min(self._link.try_s, max(session.ttl / 4, 0.5))
        answer = await self._link.call(
            LEASE_KEEP_ALIVE, request, reads=True, channel=RENEWAL, within=within
        )
        if replies.read_lease(answer).ttl <= 0:
            self.end(session)
            raise LeaseGone
        session.hope(asked_at, turn)

    async def extend_surely(self, session: Session, look: bytes = b"") -> bytes:
        """Extend a lease, and let a majority confirm that whoever did so may; ``look`` is a
        transaction that only reads."""
        for _ in range(TRIES):
            await self.extend(session)
            turn, hoped = self._link.turn, session.hoped
            answer = await self._link.call(TXN, look, reads=True)
            if session.prove(turn, hoped) and turn == self._link.turn:
                return answer
        raise Unavailable("the members of etcd take turns in failing. Try again")

    def end(self, session: Session) -> None:
        """The lease is no more, and no key on it; who waited there looks again."""
        session.ended = True
        self._all.pop(session, None)
        for place in list(session.places.values()):
            place.call(self._world.now())

    def start(self) -> None:
        """Look after the keys from now on."""
        with self._mutex:
            if self.job is None and not self._closing:
                self.job = self._world.spawn(self._run(), "fencelock-etcd")

    def expect(self, place: Place) -> None:
        """A key of ours may still appear: a request for it was not answered."""
        place.session.ghosts[place.key] = (place.value, NEVER)

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._wake.set()

    async def close(self) -> None:
        """End the work in the background; leases without a key go at once."""
        self.close_nowait()
        if self.job is not None:
            await self.job.join(self._world.now() + CLOSE_S)
        for session in list(self._all):
            if not session.places:
                await self._revoke(session)

    async def _run(self) -> None:
        while self._goes_on():
            await self._world.wait(self._wake, self._world.now() + NAP_S)
            self._look()
            for session in list(self._all):
                try:
                    if not self._closing:
                        await self._attend(session)
                except Exception:  # holders and waiters meet the same trouble themselves
                    continue
        self._look()

    def _goes_on(self) -> bool:
        """Whether there is something to look after; under the mutex, as whoever starts this."""
        with self._mutex:
            if self._closing or not self._all:
                self.job = None
            return self.job is not None

    async def _attend(self, session: Session) -> None:
        now = self._world.now()
        await self._reap(session)
        if session.places or session.ghosts or now < session.used_at + IDLE_S:
            if now - max(session.alive_at, session.tried_at) >= session.ttl * EXTEND:
                await self.extend(session)
        else:
            self.end(session)
            await self._revoke(session)

    async def _reap(self, session: Session) -> None:
        """Delete what is past its end. An error means that the lease must not be extended."""
        now = self._world.now()
        for place in [place for place in list(session.places.values()) if place.until <= now]:
            await self._delete(session, place.key, place.value)
            self.reaped(place)
            place.call(self._world.now())
        for key, (value, until) in list(session.ghosts.items()):
            await self._delete(session, key, value)
            if until == NEVER:  # what was sent before may come after this, but not much later
                session.ghosts[key] = (value, self._world.now() + GHOST_S)
            elif until <= now:
                session.ghosts.pop(key, None)

    async def _delete(self, session: Session, key: bytes, value: bytes) -> None:
        """Delete a key of ours, unless another client has taken it over."""
        ours = [
            requests.equal(requests.LEASED, key, session.lease),
            requests.same_value(key, value),
        ]
        await self._link.call(
            TXN, requests.txn(ours, [requests.do_delete(requests.delete(key))]), channel=RENEWAL
        )

    async def _revoke(self, session: Session) -> None:
        try:
            await self._link.call(LEASE_REVOKE, requests.lease_named(session.lease))
        except FencelockError:
            pass  # it ends by itself
