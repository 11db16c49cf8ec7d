"""An etcd lease of ours, and a key of ours that is attached to it: the client's knowledge of both.

The end of a lease is counted from before the keep-alive was sent. A former leader that does not
know that it has been replaced may answer a keep-alive; so an extension counts only when the same
member has answered a linearizable request that was sent after it (``confirm``).

A key that is past its end is deleted in the background, while its owner may use it or extend it at
the same moment, on another connection. Each side first says what it does, and then looks at the
other: the owner moves ``until``, and does not rely on the key if it is ``deleting``; the background
job sets ``deleting`` for good, unless ``until`` was moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ...model import Grant, Share, drift
from ...world import Signal
from .keys import KeyTransactions, delete_own
from .messages import requests

FRESH, FRESH_MIN_S = 0.1, 0.5  # of its ttl: no grant is made on an older lease
LATELY_S = 1.0  # an extension serves all callers for so long from its start
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


_NOTHING = Awaited(b"", 0)


class OwnKey:
    """One key of ours: a position in the queue of a name; at the head of the queue, the lock."""

    __slots__ = (
        "created",
        "deleting",
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
        self.deleting = False
        """Whether a deletion of it was sent, or is about to be."""
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
        """Make the grant, which lasts as long as the etcd lease is known to last.

        It has expired already if the key is being deleted: the answer took longer than the ttl.
        """
        lease = self.lease
        self.waiting, self.until = False, lease.ends_at
        end = asked_at if self.deleting else lease.valid_until
        return _make(Grant, (name, self.owner, self.created, lease.ttl, asked_at, end, self.share))

    def extend(self, until: float) -> bool:
        """Keep it until then; return False if it is being deleted."""
        self.until = until
        return not self.deleting

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
