"""Keep the registry of a client's own keys and leases: which owner has which key, and which keys
may be used again.

This module sends nothing. A key is registered before the request that puts it is sent, and
forgotten when it is gone; a put that was never answered may bring the key back, so then no other
owner uses that key until it has been deleted.
"""

from __future__ import annotations

from ...errors import UsageError
from ...model import Busy, Grant, Request, Share
from ...world import Signal, World
from .cluster import LeaseGone
from .keys import KEPT_MAX, Keys, KeyTransactions, value_of
from .lease import Leases
from .messages import requests
from .messages.replies import KeyValue
from .own_key import Awaited, Lease, OwnKey
from .watch import Watches

LOOK_S = 60.0  # a waiter with a watch polls as well, this seldom
POLL_S = 1.0  # the poll interval of a waiter without a watch


class OwnKeys:
    """All keys of one client."""

    def __init__(self, world: World, leases: Leases, watches: Watches, keys: Keys) -> None:
        self._world = world
        self._leases = leases
        self._watches = watches
        self._keys = keys
        self._by_key: dict[bytes, OwnKey] = {}
        self.by_owner: dict[str, OwnKey] = {}
        self.signals: dict[str, Signal] = {}
        """The signals of waiters, by owner."""
        leases.on_expired = self.forget

    def take(self, request: Request, lease: Lease) -> OwnKey:
        """Register a key for the owner of a request; return the same key when it retries."""
        name, owner, _, meta, _, _, _, _ = request
        old = self.by_owner.get(owner)
        if old is not None:
            if old.lease is lease and old.extend(self._world.now() + lease.ttl):
                return old
            self.forget(old, certain=old.lease is not lease)  # an ended lease's keys are gone
        encoded = lease.transactions.get(name) or self._encode(name, lease)
        own = OwnKey(owner, encoded.key, value_of(owner, self._world.wall_us(), meta), lease, 0.0)
        number = 0  # of another contender of this client; setdefault is atomic among threads
        while own.key in lease.late_keys or self._by_key.setdefault(own.key, own) is not own:
            number += 1
            own.key = encoded.key + b"-%d" % number
        if number:
            encoded = self._keys.transactions(name, own.key, lease.id)
            encoded.contended = encoded.contended or 1  # by other contenders of this client
        own.transactions = encoded
        self.by_owner[owner] = lease.keys[owner] = own
        if self._leases.job is None:
            self._leases.start()
        if lease.ended:
            raise self._unused(own)
        return own

    def take_share(self, request: Request, start: bytes, lease: Lease, share: Share) -> OwnKey:
        """Register a key with the prefix ``start`` for an owner; the same one when it retries."""
        old = self.by_owner.get(request.owner)
        if old is not None:
            if old.lease is lease and old.extend(self._world.now() + lease.ttl):
                return old
            self.forget(old, certain=old.lease is not lease)  # an ended lease's keys are gone
        value = value_of(request.owner, self._world.wall_us(), request.meta)
        return self._add(OwnKey(request.owner, start + lease.hex, value, lease, 0.0), share)

    def claim(self, waiting: OwnKey, start: bytes, share: Share) -> OwnKey:
        """Register a key that begins with ``start`` and replaces a key in the queue."""
        lease = waiting.lease
        own = OwnKey(waiting.owner, start + lease.hex, waiting.value, lease, waiting.until)
        own.former = waiting
        return self._add(own, share)

    def _add(self, own: OwnKey, share: Share) -> OwnKey:
        first, number, lease = own.key, 0, own.lease
        while own.key in lease.late_keys or self._by_key.setdefault(own.key, own) is not own:
            number += 1
            own.key = first + b"-%d" % number
        own.share = share
        self.by_owner[own.owner] = lease.keys[own.owner] = own
        self._leases.start()
        if lease.ended:
            raise self._unused(own)
        return own

    def _unused(self, own: OwnKey) -> LeaseGone:
        """Forget a key that was registered as its lease is revoked because no key was on it."""
        self.forget(own, certain=True)
        return self._leases.ended(own.lease)

    def claimed(self, own: OwnKey) -> None:
        """Forget the key in the queue that ``own`` has replaced."""
        former, own.former = own.former, None
        if former is not None:
            self._drop(former)

    def unclaimed(self, own: OwnKey) -> OwnKey:
        """Forget a key that was not put, and return the key in the queue that it was to replace."""
        assert own.former is not None
        self._drop(own)
        self.by_owner[own.owner] = own.lease.keys[own.owner] = own.former
        return own.former

    def _drop(self, own: OwnKey) -> None:
        """Forget one of an owner's two keys."""
        if own.watch_id:
            self._watches.disarm(own)
        if own.unanswered:
            self._leases.expect_late(own)
        if self._by_key.get(own.key) is own:
            del self._by_key[own.key]

    def wait(self, own: OwnKey, awaited: Awaited, position: int | None, holder: str) -> Busy:
        """Arm a watch for a waiter, and return Busy with the time until it must poll."""
        own.waiting = True
        own.predecessor = awaited
        own.signal = self.signals.get(own.owner)
        own.keep_queued(self._world.now(), LOOK_S)
        armed = own.signal is None or self._watches.arm(own, *awaited)
        return Busy(LOOK_S if armed else POLL_S, position, True, holder)

    def adopt(self, owner: str, pair: KeyValue, lease: Lease) -> OwnKey:
        """Register a key that is attached to a lease of ours from now on."""
        own = OwnKey(owner, pair.key, pair.value, lease, lease.ends_at)
        own.created = pair.created
        old = self.by_owner.get(owner)
        if old is not None and old.key == pair.key:
            own.unanswered, old.unanswered = old.unanswered, 0
            own.share, own.rewritten = old.share, old.rewritten
            own.deleting = old.deleting
        if old is not None:
            self.forget(old)
        self.by_owner[owner] = self._by_key[pair.key] = lease.keys[owner] = own
        self._leases.start()
        return own

    def expect(self, owner: str, pair: KeyValue, lease: Lease, until: float) -> None:
        """Register a key before it is attached to a lease of ours, as the reply may be lost."""
        lease.keys[owner] = OwnKey(owner, pair.key, pair.value, lease, until)
        self._leases.start()

    def forget(self, own: OwnKey, certain: bool = False, keep_key: bool = False) -> None:
        """Forget a key that is gone. Unless that is certain, have a late put of it deleted."""
        if certain:
            own.unanswered = 0
        if own.former is not None:
            if certain:
                own.former.unanswered = 0
            self.claimed(own)
        if own.watch_id:
            self._watches.disarm(own)
        owner, key = own.owner, own.key
        if own.lease.keys.get(owner) is own:
            del own.lease.keys[owner]
        if own.unanswered:
            self._leases.expect_late(own)
        if self.by_owner.get(owner) is own:
            del self.by_owner[owner]
        if not keep_key and self._by_key.get(key) is own:
            del self._by_key[key]

    def of(self, grant: Grant) -> OwnKey | None:
        """Return the key of a grant; None if its owner has none, or another one by now."""
        own = self.by_owner.get(grant.owner)
        return own if own is not None and own.created == grant.fence else None

    def comparison(self, grant: Grant) -> tuple[bytes, int, bytes]:
        """Return the comparison for a user's transaction: key, create revision, encoded message."""
        own = self.by_owner.get(grant.owner)
        if own is None:
            raise UsageError(
                f"the key of {grant.name!r} is not known here, because another process has made "
                "it: renew the lease once"
            )
        return own.key, grant.fence, requests.equal(requests.CREATED, own.key, grant.fence)

    def _encode(self, name: str, lease: Lease) -> KeyTransactions:
        """Encode the transactions with our first key of a name, and cache them with the lease."""
        if len(lease.transactions) >= KEPT_MAX:
            lease.transactions.clear()
        key = self._keys.requests(name).lower + lease.hex
        encoded = lease.transactions[name] = self._keys.transactions(name, key, lease.id)
        return encoded
