"""Keep the registry of a client's own keys and leases: which owner has which key, and which keys
may be used again.

This module sends nothing. A key is registered before the request that puts it is sent, and
forgotten when it is gone; a put that was never answered may bring the key back, so then no other
owner uses that key until it has been deleted.

The end of a lease is counted from before the keep-alive was sent. A former leader that does not
know that it has been replaced may answer a keep-alive; so an extension counts only when the same
member has answered a linearizable request that was sent after it (``confirm``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ...errors import UsageError
from ...model import Busy, Grant, Request, Share, drift
from ...world import Signal, World
from .keys import KEPT_MAX, Keys, KeyTransactions, delete_own, value_of
from .messages import requests
from .messages.replies import KeyValue

if TYPE_CHECKING:
    from .lease import Leases
    from .watch import Watches

FRESH, FRESH_MIN_S = 0.1, 0.5  # of its ttl: no grant is made on an older lease
LATELY_S = 1.0  # an extension serves all callers for so long from its start
LOOK_S = 60.0  # a waiter with a watch polls as well, this seldom
POLL_S = 1.0  # the poll interval of a waiter without a watch
_NO_EPOCH = -2

# Makes a named tuple by the constructor of plain tuples, in half the time.
_make: Callable[[type[Grant], tuple[object, ...]], Grant] = cast("Any", tuple).__new__


class Lease:
    """One etcd lease, the keys attached to it, and until when it is known to last."""

    def __init__(self, id_: int, ttl: float, now: float) -> None:
        self.id = id_
        self.hex = f"{id_:x}".encode()
        self.ttl = ttl
        """In seconds, as granted by the server."""
        self._live_from(now)
        self.used_at = now
        self.tried_at = now
        self.ended = False
        self.keys: dict[str, OwnKey] = {}
        """The keys attached to it, by owner."""
        self.transactions: dict[str, KeyTransactions] = {}
        """The transactions with our first key of a name, by name."""
        self.late_keys: dict[bytes, tuple[bytes, float]] = {}
        """Keys that an unanswered put may still create: the value of each, and until when."""
        self.extension = (now, -1)
        """The last extension: the moment of its request, and the cluster's epoch then."""
        self.confirmed_in = _NO_EPOCH
        """The epoch in which the last extension was confirmed."""
        self.fresh_until = 0.0
        """Until then a grant may be made on it without extending it."""
        self.extended(now, -1)

    def extended(self, asked_at: float, epoch: int) -> None:
        """Record that a member has extended it."""
        self.extension = (asked_at, epoch)
        self.confirmed_in = _NO_EPOCH  # second: see confirm()
        self.fresh_until = asked_at + max(self.ttl * FRESH, FRESH_MIN_S)

    def wants_extension(self, now: float) -> bool:
        """Return whether the caller should extend it: not if another has just started to."""
        if now <= self.fresh_until:
            return False
        return now > self.tried_at + LATELY_S or self.ends_at - now < self.ttl / 2

    def is_ready(self, now: float) -> bool:
        """Return whether a grant can be made on it without another request."""
        return not self.ended and now <= self.fresh_until < self.ends_at

    def confirm(self, epoch: int, extension: tuple[float, int]) -> bool:
        """Count an extension if the member that made it has answered since, and return whether it
        counts.

        ``epoch`` is that of a linearizable request which was sent after the extension and
        answered.
        """
        asked_at, extended_in = extension
        if extended_in not in (epoch, -1):
            return False
        if extended_in == epoch and asked_at > self.alive_at:
            self._live_from(asked_at)
        self.confirmed_in = epoch
        if self.extension is not extension:  # another thread has extended it: unconfirmed yet
            self.confirmed_in = _NO_EPOCH
        return True

    def _live_from(self, moment: float) -> None:
        """Set the lease's end to ``moment`` plus its ttl; its holders stop a little earlier."""
        self.alive_at = moment
        self.ends_at = moment + self.ttl
        self.valid_until = self.ends_at - drift(self.ttl)


class Awaited(NamedTuple):
    """What a waiter watches."""

    key: bytes
    """The key before its own, or the start of a range."""
    revision: int
    """The revision at which the key or range was read."""
    past: bool = False
    """Whether the watch starts at that revision, because many are before it."""
    end: bytes = b""
    """The end of the range: the deletion of any key in it wakes the waiter."""
    puts: bool = False
    """Whether a put wakes it as well."""


class OwnKey:
    """One key of ours: a position in the queue of a name; at the head of the queue, the lock."""

    __slots__ = (
        "created",
        "extension",
        "former",
        "holder",
        "key",
        "lease",
        "owner",
        "predecessor",
        "rewritten",
        "share",
        "signal",
        "transactions",
        "unanswered",
        "until",
        "value",
        "waiting",
        "watch_id",
    )

    def __init__(self, owner: str, key: bytes, value: bytes, lease: Lease, until: float) -> None:
        self.owner = owner
        self.key = key
        self.value = value
        """Its value, which proves that the key is ours: keys are used again, values never."""
        self.lease = lease
        self.until = until
        """When it is deleted unless it is needed again."""
        self.created = 0
        """Its create revision; 0 while it is unknown."""
        self.unanswered = 0
        """How many requests to put the key are unanswered: each may still take effect."""
        self.waiting = False
        self.holder: tuple[bytes, str] = (b"", "")
        """The key at the head of the queue, and the meta of its holder."""
        self.predecessor = _NOTHING
        """What its waiter watches: for a mutex, the key right before this one."""
        self.share: Share | None = None
        """Its share of the name; None for a mutex."""
        self.former: OwnKey | None = None
        """The key in the queue that this one replaces, until the put is answered."""
        self.rewritten = 0
        """Its create revision if its value may have been rewritten: then the revision, not the
        value, identifies it."""
        self.signal: Signal | None = None
        self.watch_id = 0
        self.transactions: KeyTransactions | None = None
        """The encoded transactions with this key; None until they are needed."""
        self.extension = lease.extension
        """The extension of its lease that was known when its last request was sent."""

    def grant(self, name: str, asked_at: float) -> Grant:
        """Make the grant, which lasts as long as the etcd lease is known to last."""
        lease = self.lease
        self.waiting, self.until = False, lease.ends_at
        end = lease.valid_until
        return _make(Grant, (name, self.owner, self.created, lease.ttl, asked_at, end, self.share))

    def put(self) -> bytes:
        """Encode the put of this key on its lease."""
        return requests.put(self.key, self.value, self.lease.id)

    def deletions(self, on_lease: bool) -> list[bytes]:
        """Encode the transactions that delete it, in order; with ``on_lease`` only if no other
        client has taken it over.

        Its former key is deleted first: once that is gone, no late claim can put this one.
        """
        both = [self] if self.former is None else [self.former, self]
        return [
            delete_own(own.key, own.value, own.lease.id if on_lease else None, own.rewritten)
            for own in both
        ]

    def keep_queued(self, now: float, look_s: float) -> None:
        """Keep it in the queue until its waiter looks again: within a ttl, plus ``look_s`` if the
        waiter has a signal."""
        self.until = now + self.lease.ttl + (0.0 if self.signal is None else look_s)

    def wake(self, now: float) -> None:
        """Wake its waiter to look again; if it does not within a ttl, its key is deleted."""
        if self.waiting:
            self.until = min(self.until, now + self.lease.ttl)
        if self.signal is not None:
            self.signal.set()


_NOTHING = Awaited(b"", 0)


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
            if old.lease is lease:
                return old
            self.forget(old, certain=True)  # its lease has ended, and its key with it
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
        return own

    def take_share(self, request: Request, start: bytes, lease: Lease, share: Share) -> OwnKey:
        """Register a key with the prefix ``start`` for an owner; the same one when it retries."""
        old = self.by_owner.get(request.owner)
        if old is not None:
            if old.lease is lease:
                return old
            self.forget(old, certain=True)  # its lease has ended, and its key with it
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
        return own

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
        own.lease.keys.pop(owner, None)
        if own.unanswered:
            self._leases.expect_late(own)
        if self.by_owner.get(owner) is own:
            del self.by_owner[owner]
        if not keep_key and self._by_key.get(key) is own:
            del self._by_key[key]

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
