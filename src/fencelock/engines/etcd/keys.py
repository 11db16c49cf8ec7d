"""Make the keys and values of contenders and the requests with them, and read them back.

A contender's key is ``<prefix><name>/<lease in hex>``, as in the recipe, and ``…-1``, ``…-2`` for
further contenders of the same client. Keys are used again: etcd keeps a deleted key in its index
until the history is compacted, so a name would get slower with each grant that used a new key. So a
key does not identify its owner; the value does.

Requests of the hot path are encoded once, for each name and for each key. This module sends
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...model import Meta, Share
from .messages import protobuf, replies, requests

KEPT_MAX = 256
SIZES_MAX = 16

TRY, JOIN = range(2)
"""What a transaction does if there are other contenders: read the first, or join the queue."""


class NameRequests(NamedTuple):
    """Encoded parts of requests about one name."""

    lower: bytes
    upper: bytes
    nobody: bytes
    """The comparison that holds if there is no contender at all."""
    everybody: bytes
    """The request that reads the keys of all contenders."""
    last_two: bytes
    """The request that reads the keys of the last two, the last one first, and the total: all that
    a new contender needs of a queue, however long it is."""
    first: bytes
    """The request that reads the key and value of the first contender, and the total."""

    @classmethod
    def of(cls, start: bytes) -> NameRequests:
        """Encode them for a name; ``start`` is the prefix and the name."""
        lower, upper = start + b"/", start + b"0"  # 0 follows / in ASCII
        nobody = requests.equal(requests.CREATED, lower, 0, upper)
        everybody = requests.range_of(lower, upper, keys_only=True)
        last_two = requests.range_of(lower, upper, limit=2, newest_first=True, keys_only=True)
        first = requests.range_of(lower, upper, limit=1, oldest_first=True)
        return cls(lower, upper, nobody, everybody, last_two, first)


class KeyTransactions:
    """The transactions that acquire and release a lock with one key.

    Everything but the value is encoded beforehand: this is the hot path. Values of the same size
    have the same bytes before and after them.
    """

    def __init__(self, name: NameRequests, key: bytes, lease: int) -> None:
        free = requests.equal(requests.CREATED, key, 0)
        mine = requests.range_of(key)
        reads = [requests.do_range(read) for read in (name.last_two, name.first, mine)]
        self.key = key
        self.contended = 0
        """How many further acquires expect the lock to be busy, and so join the queue at once."""
        self._nobody = protobuf.message(1, name.nobody)
        self._start, self._lease = protobuf.text(1, key), protobuf.integer(3, lease)
        self._free = protobuf.message(1, free)
        self._read = requests.txn([], [], [reads[1]])
        self._all_reads = requests.txn([], [], reads)
        self._same = free[:-1]
        self._delete = protobuf.message(2, requests.do_delete(requests.delete(key)))
        self._before: dict[int, bytes] = {}
        self._around: dict[int, tuple[bytes, ...]] = {}

    def release(self, created: int) -> bytes:
        """Encode the transaction that deletes the key if it has this create revision."""
        revision = protobuf.varint(created)
        size = len(revision)
        before = self._before.get(size)
        if before is None:
            before = self._before[size] = protobuf.opening(1, len(self._same) + size) + self._same
        return before + revision + self._delete

    def acquire(self, value: bytes, form: int) -> bytes:
        """Encode the transaction that puts the key if there is no contender; ``form``, TRY or JOIN,
        chooses what it does if there is one."""
        size = len(value)
        around = self._around.get(size << 2 | form)
        if around is None:
            if len(self._around) >= SIZES_MAX:
                self._around.clear()
            around = self._around[size << 2 | form] = self._frame(size, form)
        return value.join(around)

    def _frame(self, size: int, form: int) -> tuple[bytes, ...]:
        """Encode what precedes and follows a value of this size; a join sends the value twice."""
        tail = self._lease
        taking = self._start + protobuf.opening(2, size)
        for number in (2, 2):  # a put, in the operations for a comparison that holds
            taking = protobuf.opening(number, len(taking) + size + len(tail)) + taking
        if form == TRY:
            return self._nobody + taking, tail + self._read
        joining = self._free + taking
        for number in (4, 3):  # a transaction, in those for one that does not
            joining = protobuf.opening(number, len(joining) + size + len(tail)) + joining
        return self._nobody + taking, tail + joining, tail + self._all_reads


class Keys:
    """The keys of one client, and a cache of encoded requests."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self.names_prefix = prefix + b"\0names/"
        """The prefix of all keys but mutexes': no name of a lock begins with a zero byte."""
        self._requests: dict[str, NameRequests] = {}
        self._transactions: dict[tuple[bytes, int], KeyTransactions] = {}

    def requests(self, name: str) -> NameRequests:
        """Return the requests about a name."""
        found = self._requests.get(name)
        if found is None:
            if len(self._requests) >= KEPT_MAX:
                self._requests.clear()
            found = self._requests[name] = NameRequests.of(self.prefix + name.encode())
        return found

    def transactions(self, name: str, key: bytes, lease: int) -> KeyTransactions:
        """Return the transactions with this key on this lease."""
        found = self._transactions.get((key, lease))
        if found is None:
            if len(self._transactions) >= KEPT_MAX:
                self._transactions.clear()
            found = self._transactions[key, lease] = KeyTransactions(
                self.requests(name), key, lease
            )
        return found

    def contenders(self, name: str, pairs: Sequence[replies.KeyValue]) -> list[replies.KeyValue]:
        """Return the contenders for a name itself, in the order of their create revisions.

        Names keep their slashes, so ``a/b`` begins with ``a/``: its keys have one slash more.
        """
        start = len(self.requests(name).lower)
        direct = [pair for pair in pairs if b"/" not in pair.key[start:]]
        return sorted(direct, key=lambda pair: pair.created)

    def name_prefix(self, name: str = "") -> bytes:
        """Return the prefix of all keys of a name but those of its mutex.

        Names have no control characters: so no mutex's key begins with it, and the zero byte marks
        the end of the name.
        """
        return self.names_prefix + name.encode() + b"\0"

    def bounds(self, name: str, share: Share | None) -> tuple[bytes, bytes]:
        """Return the range of the keys of all contenders for a name."""
        if share is not None:
            return range_below(self.name_prefix(name) + share.kind.encode() + b"/")
        name_requests = self.requests(name)
        return name_requests.lower, name_requests.upper

    def everything(self, name: str) -> list[tuple[bytes, bytes]]:
        """Return the ranges of all keys of a name: that of its mutex, with the keys of names below,
        and that of ``name_prefix``."""
        prefix = self.name_prefix(name)
        return [self.bounds(name, None), (prefix, prefix[:-1] + b"\1")]

    def name_of(self, pair: replies.KeyValue) -> str | None:
        """Return the name if the key is a contender for its mutex; None for any other key."""
        if b"\0" in pair.key:
            return None
        name, slash, tail = pair.key[len(self.prefix) :].rpartition(b"/")
        theirs = tail == f"{pair.lease:x}".encode()
        if not (slash and name and pair.lease and (theirs or owner_of(pair.value))):
            return None
        return name.decode(errors="replace")

    def revocation(self, owner: str) -> bytes:
        """Return the key of a revocation's reason: no name of a lock begins with a zero byte."""
        return self.prefix + b"\0revoked/" + owner.encode()


def range_below(start: bytes) -> tuple[bytes, bytes]:
    """Return the range of all keys that begin with ``start``, which ends with a slash."""
    return start, start[:-1] + b"0"  # 0 follows / in ASCII


def attach(key: bytes, created: int, lease: int) -> bytes:
    """Encode the transaction that attaches a key to a lease if it has this create revision."""
    same = requests.equal(requests.CREATED, key, created)
    return requests.txn([same], [requests.do_put(requests.attach(key, lease))])


def delete_created(key: bytes, created: int) -> bytes:
    """Encode the transaction that deletes a key if it has this create revision."""
    same = requests.equal(requests.CREATED, key, created)
    return requests.txn([same], [requests.do_delete(requests.delete(key))])


def delete_own(key: bytes, value: bytes, lease: int | None = None, created: int = 0) -> bytes:
    """Encode the transaction that deletes a key if its value is ours and, if ``lease`` is given, it
    is on this lease.

    ``created``: compare this create revision instead of the value, which may have been rewritten.
    """
    ours = [requests.same_value(key, value)]
    if created:
        ours = [requests.equal(requests.CREATED, key, created)]
    if lease is not None:
        ours.insert(0, requests.equal(requests.LEASED, key, lease))
    return requests.txn(ours, [requests.do_delete(requests.delete(key))])


def value_of(owner: str, since_us: int, meta: str) -> bytes:
    """Encode the value of a contender's key: its owner, since when it contends, and its meta."""
    return f'{{"owner":"{owner}","since_us":{since_us},"meta":{meta}}}'.encode()


def read(value: bytes) -> dict[str, Any]:
    """Decode the value of a key; empty for a key of another program."""
    try:
        said = json.loads(value)
        if isinstance(said, dict) and {"owner", "since_us", "meta"} <= said.keys():
            return said  # pyright: ignore[reportUnknownVariableType]
    except ValueError:
        pass
    return {"owner": "", "since_us": None, "meta": {}}


def owner_of(value: bytes) -> str:
    return str(read(value)["owner"])


def meta_text(value: bytes) -> str:
    return json.dumps(read(value)["meta"])


def age_and_meta(value: bytes, wall_us: int) -> tuple[float, Meta]:
    said = read(value)
    since = said["since_us"]
    age = max(0.0, (wall_us - since) / 1e6) if isinstance(since, int) else 0.0
    meta: Meta = said["meta"]
    return age, meta
