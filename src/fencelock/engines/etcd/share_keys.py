"""Make the keys of read/write locks and semaphores and the transactions with them, and read them.

They are below a prefix of their name (``Keys.name_prefix``), which no other name's keys begin with:

* ``rwlock/read/<lease>`` and ``rwlock/write/<lease>``: a reader or a writer, whether it holds or
  waits.
* ``semaphore/<limit>/slot/<number>/<lease>``: a holder. ``semaphore/<limit>/queue/<lease>``: a
  waiter. While one such key exists, none with another limit can be put.

As with a mutex, the keys of further contenders of one client end with ``-1``, ``-2``. This module
sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...model import Role, Share
from .keys import KEPT_MAX, Keys, range_below
from .messages import requests
from .messages.replies import KeyValue, RangeReply
from .messages.requests import CREATED, do_delete, do_put, do_range, do_txn, equal, exists, range_of
from .own_key import OwnKey

PAGE = 500  # slots read in one request
TAKEN_MAX = 100  # comparisons that lower slots are taken: etcd takes 128 by default
TAKEN_BYTES = 16_384  # and it writes all of them to its log

_DOWNGRADED = b',"downgraded":true}'


class RWLockKeys:
    """The keys of one read/write lock."""

    def __init__(self, start: bytes) -> None:
        self._all = range_below(start)
        self._reading, self._writing = range_below(start + b"read/"), range_below(start + b"write/")
        self._first = do_range(range_of(*self._all, limit=1, oldest_first=True))
        self._nobody = _is_empty(self._all)
        self._no_writer = _is_empty(self._writing)

    def start_of(self, share: Share) -> bytes:
        """Return the prefix of a reader's or a writer's key."""
        return (self._reading if share.units < share.limit else self._writing)[0]

    def is_writer(self, key: bytes) -> bool:
        return key.startswith(self._writing[0])

    def take(self, own: OwnKey, queues: bool) -> bytes:
        """Encode the transaction that puts the key if there is no key to wait for; else puts it as
        well if it ``queues``, and reads it, the last key that it has to wait for, and the first of
        all."""
        free, put = equal(CREATED, own.key, 0), do_put(own.put())
        writes = self.is_writer(own.key)
        blockers = self._all if writes else self._writing
        last = range_of(*blockers, limit=2 if writes else 1, newest_first=True)
        reads = [do_range(range_of(own.key)), do_range(last), self._first]
        if queues:
            reads.insert(0, do_txn(requests.txn([free], [put])))
        nobody = [self._nobody] if writes else [self._no_writer, free]
        return requests.txn(nobody, [put], reads)

    def look(self, own: OwnKey) -> bytes:
        """Encode the transaction that reads the same for a key that has been put."""
        blockers = self._all if self.is_writer(own.key) else self._writing
        last = range_of(*blockers, limit=1, newest_first=True, created_max=own.created - 1)
        return requests.txn([], [do_range(range_of(own.key)), do_range(last), self._first])

    def downgrade(self, own: OwnKey) -> bytes:
        """Encode the transaction that marks a writer's key, in its value, as a reader's from now
        on.

        The key keeps its create revision: waiters for its deletion wait on, and its fence stays.
        """
        value = own.value if is_downgraded(own.value) else own.value[:-1] + _DOWNGRADED
        same = equal(CREATED, own.key, own.created)
        return requests.txn([same], [do_put(requests.rewrite(own.key, value))])


def is_downgraded(value: bytes) -> bool:
    """Return whether a writer's key is marked as a reader's."""
    return value.endswith(_DOWNGRADED)


class SemaphoreKeys:
    """The keys of one semaphore with one limit."""

    def __init__(self, start: bytes, limit: int) -> None:
        self.limit = limit
        ours = start + b"%d/" % limit
        self.all = range_below(start)
        self.queue = range_below(ours + b"queue/")
        self.slots = range_below(ours + b"slot/")
        lower, upper = range_below(ours)
        self._same_limit = [_is_empty((start, lower)), _is_empty((upper, self.all[1]))]
        """Comparisons: there is no key with another limit."""
        self._free = requests.txn([*self._same_limit, _is_empty(self.queue)], [])
        """These comparisons, and that nobody waits."""
        self._taken: list[bytes] = []
        """Comparisons that a slot is taken, for slot 0 and on, as many as were needed so far."""
        self.compared_max = min(TAKEN_MAX, TAKEN_BYTES // len(exists(*self.slot(0))))
        self._slots_and_first = [
            do_range(self.page()),
            do_range(range_of(*self.slots, limit=1, oldest_first=True)),
        ]
        self._waiting = do_range(range_of(*self.queue, limit=1, keys_only=True))
        self._last_two = do_range(range_of(*self.queue, limit=2, newest_first=True, keys_only=True))

    def slot(self, number: int) -> tuple[bytes, bytes]:
        """Return the range of a slot's keys: there is at most one key in it."""
        return range_below(self.slots[0] + b"%06d/" % number)

    def page(self, after: bytes = b"") -> bytes:
        """Encode the read of one page of taken slots: the first page, or the one after a key."""
        start = after + b"\0" if after else self.slots[0]
        return range_of(start, self.slots[1], limit=PAGE, keys_only=True)

    def take(self, own: OwnKey, slot: int) -> bytes:
        """Encode the transaction that puts the key in a slot if that is the lowest free one and
        nobody waits; else reads the key, the first waiter, the taken slots, and the first
        holder."""
        lower = min(slot, self.compared_max)
        while len(self._taken) < lower:
            taken = requests.txn([exists(*self.slot(len(self._taken)))], [])
            self._taken.append(taken)
        reads = [do_range(range_of(own.key)), self._waiting, *self._slots_and_first]
        rest = requests.txn([_is_empty(self.slot(slot))], [do_put(own.put())], reads)
        return self._free + b"".join(self._taken[:lower]) + rest

    def join(self, own: OwnKey) -> bytes:
        """Encode the transaction that puts the key into the queue, unless another limit is in use,
        and reads the key, the last two of the queue, the taken slots, and the first holder."""
        reads = [do_range(range_of(own.key)), self._last_two, *self._slots_and_first]
        compare = [*self._same_limit, equal(CREATED, own.key, 0)]
        return requests.txn(compare, [do_put(own.put()), *reads], reads)

    def look(self, own: OwnKey) -> bytes:
        """Encode the transaction that reads the same for a key that has been put; of the queue, the
        last two up to the key."""
        last = range_of(
            *self.queue, limit=2, newest_first=True, keys_only=True, created_max=own.created
        )
        reads = [do_range(range_of(own.key)), do_range(last), *self._slots_and_first]
        return requests.txn([], reads)

    def claim(self, own: OwnKey, former: OwnKey, slot: int) -> bytes:
        """Encode the transaction that puts the key in a free slot and deletes the one in the queue;
        else reads both."""
        compare = [equal(CREATED, former.key, former.created), _is_empty(self.slot(slot))]
        moves = [do_delete(requests.delete(former.key)), do_put(own.put())]
        reads = [do_range(range_of(own.key)), do_range(range_of(former.key))]
        return requests.txn(compare, moves, reads)


def slot_of(key: bytes) -> int:
    """Return the slot that a holder's key is in."""
    return int(key.rsplit(b"/", 2)[1])


def lowest_free(pairs: Sequence[KeyValue], start: int = 0) -> int:
    """Return the lowest slot, from ``start`` on, that none of these keys is in."""
    for slot in [slot_of(pair.key) for pair in pairs]:
        if slot > start:
            break
        start = slot + 1
    return start


class ShareKey(NamedTuple):
    """What a key of a semaphore or a read/write lock stands for."""

    kind: Literal["semaphore", "rwlock"]
    role: Role
    limit: int | None = None
    slot: int | None = None
    """The slot of a semaphore's holder; None for a waiter."""


def read_share_key(tail: bytes) -> ShareKey | None:
    """Parse the part of a key after the name's prefix; None for any other key of the name."""
    match tail.split(b"/"):
        case [b"rwlock", b"read", _]:
            return ShareKey("rwlock", "read")
        case [b"rwlock", b"write", _]:
            return ShareKey("rwlock", "write")
        case [b"semaphore", limit, b"slot", slot, _]:
            return ShareKey("semaphore", "semaphore", int(limit), int(slot))
        case [b"semaphore", limit, b"queue", _]:
            return ShareKey("semaphore", "semaphore", int(limit))
        case _:
            return None


class ShareKeys:
    """The keys of read/write locks and semaphores, cached by name."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._rwlocks: dict[str, RWLockKeys] = {}
        self._semaphores: dict[tuple[str, int], SemaphoreKeys] = {}

    def rwlock(self, name: str) -> RWLockKeys:
        found = self._rwlocks.get(name)
        if found is None:
            if len(self._rwlocks) >= KEPT_MAX:
                self._rwlocks.clear()
            found = self._rwlocks[name] = RWLockKeys(self._keys.name_prefix(name) + b"rwlock/")
        return found

    def semaphore(self, name: str, limit: int) -> SemaphoreKeys:
        found = self._semaphores.get((name, limit))
        if found is None:
            if len(self._semaphores) >= KEPT_MAX:
                self._semaphores.clear()
            start = self._keys.name_prefix(name) + b"semaphore/"
            found = self._semaphores[name, limit] = SemaphoreKeys(start, limit)
        return found

    def limit_of(self, found: RangeReply, name: str) -> int | None:
        """Return the limit in the first of these keys of a semaphore; None if there is none."""
        start = len(self._keys.name_prefix(name))
        key = read_share_key(found.pairs[0].key[start:]) if found.pairs else None
        return None if key is None else key.limit


def _is_empty(bounds: tuple[bytes, bytes]) -> bytes:
    """Encode the comparison that is true when there is no key in a range."""
    return equal(CREATED, bounds[0], 0, bounds[1])
