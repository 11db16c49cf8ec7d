"""The handful of etcd v3 messages that a lock needs, as bytes.

A request is built by a function and is ``bytes``; an answer is read into a named tuple. Field
numbers are those of etcd's ``rpc.proto`` and ``kv.proto``, which are frozen. Unknown fields are
skipped, as protobuf wants it, so newer servers are understood. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

Field: TypeAlias = tuple[int, int, bytes]
"""Number, integer value, bytes value: one of the two values is empty."""

_INT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN, _WRAP = 1 << 63, 1 << 64


class Malformed(Exception):
    """What came is no answer of etcd's."""


class KeyValue(NamedTuple):
    key: bytes
    created: int
    """Create revision: the place in the queue, and the fence."""
    value: bytes
    lease: int


class Found(NamedTuple):
    """The answer to a range: a part of the store at one revision."""

    revision: int
    pairs: list[KeyValue]
    more: bool


class Outcome(NamedTuple):
    """The answer to a transaction."""

    revision: int
    succeeded: bool
    found: list[Found]
    """What its ranges have read, in order; puts and deletes are left out."""


class Lease(NamedTuple):
    id: int
    ttl: int
    """What is left; 0 or less when there is no such lease."""
    granted_ttl: int = 0


class News(NamedTuple):
    """What a watch stream says."""

    watch: int
    revision: int
    created: bool
    """The watch has begun: it tells of everything after this revision."""
    ended: bool
    """The server has given this watch up."""
    deleted: list[bytes]


# --- Writing.


def varint(value: int) -> bytes:
    """An integer in groups of seven bits; a negative one as 64 bits in two's complement."""
    if 0 <= value < 128:
        return _SMALL[value]
    if value < 0:
        value += _WRAP
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes((value,)) for value in range(128)]


def integer(number: int, value: int) -> bytes:
    """A field with an integer; the default, 0, is not sent."""
    return varint(number << 3 | _INT) + varint(value) if value else b""


def text(number: int, value: bytes) -> bytes:
    """A field with bytes, which may be a message; the default, none, is not sent."""
    return message(number, value) if value else b""


def message(number: int, value: bytes) -> bytes:
    """A field with a message, sent even when it is empty."""
    return opening(number, len(value)) + value


def opening(number: int, size: int) -> bytes:
    """What stands before the bytes of a field."""
    return varint(number << 3 | _BYTES) + varint(size)


CREATED, VALUED, LEASED = 1, 3, 4  # what a comparison is about: create revision, value, lease
_COMPARED_FIELD = {CREATED: 5, LEASED: 8}
_RANGE_END_OF_COMPARE = 64
EMPTY = b""


def equal(target: int, key: bytes, value: int, end: bytes = b"") -> bytes:
    """A comparison. Over a range it must hold for every key, so it holds for none as well."""
    # The value stands even when it is 0: it is one of several, and says which.
    body = integer(2, target) + text(3, key)
    body += varint(_COMPARED_FIELD[target] << 3 | _INT) + varint(value)
    return body + text(_RANGE_END_OF_COMPARE, end)


def same_value(key: bytes, value: bytes) -> bytes:
    """A comparison of the whole value; it does not hold for a key that is not there."""
    return integer(2, VALUED) + text(3, key) + message(7, value)


def put(key: bytes, value: bytes, lease: int) -> bytes:
    return text(1, key) + text(2, value) + integer(3, lease)


def attach(key: bytes, lease: int) -> bytes:
    """A put that changes the lease of a key and nothing else."""
    return text(1, key) + integer(3, lease) + integer(5, 1)


def delete(key: bytes) -> bytes:
    return text(1, key)


def range_of(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    oldest_first: bool = False,
    keys_only: bool = False,
    count_only: bool = False,
    created_min: int = 0,
    created_max: int = 0,
    revision: int = 0,
) -> bytes:
    """A linearizable read of the keys from ``key`` up to ``end``, or of one key."""
    body = text(1, key) + text(2, end) + integer(3, limit) + integer(4, revision)
    if oldest_first:
        body += _OLDEST_FIRST
    body += integer(8, keys_only) + integer(9, count_only)
    return body + integer(12, created_min) + integer(13, created_max)


_OLDEST_FIRST = integer(5, 1) + integer(6, 2)  # ascending, by create revision


def do_range(request: bytes) -> bytes:
    return message(1, request)


def do_put(request: bytes) -> bytes:
    return message(2, request)


def do_delete(request: bytes) -> bytes:
    return message(3, request)


def do_txn(request: bytes) -> bytes:
    return message(4, request)


def txn(compare: Sequence[bytes], success: Sequence[bytes], failure: Sequence[bytes] = ()) -> bytes:
    """A transaction of comparisons and of operations made by ``do_…``."""
    body = b"".join([message(1, one) for one in compare])
    body += b"".join([message(2, one) for one in success])
    return body + b"".join([message(3, one) for one in failure])


def lease_grant(ttl: int) -> bytes:
    return integer(1, ttl)


def lease_named(lease: int) -> bytes:
    """The request to revoke, keep alive or ask about a lease."""
    return integer(1, lease)


def authenticate(user: str, password: str) -> bytes:
    return text(1, user.encode()) + text(2, password.encode())


def watch_deletion(watch: int, key: bytes) -> bytes:
    """Watch one key for its deletion from now on, under a number of our own."""
    without_puts = b"\x2a\x01\x00"  # field 5, packed: NOPUT
    return message(1, text(1, key) + without_puts + integer(7, watch))


def watch_no_more(watch: int) -> bytes:
    return message(2, integer(1, watch))


# --- Reading.


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in the order they stand."""
    place, end = 0, len(data)
    try:
        while place < end:
            tag, place = _varint_at(data, place)
            number, kind = tag >> 3, tag & 7
            if kind == _INT:
                value, place = _varint_at(data, place)
                yield number, value, EMPTY
            elif kind == _BYTES:
                size, place = _varint_at(data, place)
                if place + size > end:
                    raise Malformed("a field ends behind its message")
                yield number, 0, data[place : place + size]
                place += size
            elif kind in (_FIXED64, _FIXED32):
                place += 8 if kind == _FIXED64 else 4
            else:
                raise Malformed(f"a field has the unknown kind {kind}")
    except IndexError:
        raise Malformed("a message was cut short") from None


def _varint_at(data: bytes, place: int) -> tuple[int, int]:
    value = data[place]
    place += 1
    if value < 128:
        return value, place
    value &= 127
    shift = 7
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise Malformed("an integer has more than 64 bits")


def signed(value: int) -> int:
    """An int64: protobuf sends negative ones as large."""
    return value - _WRAP if value >= _SIGN else value


def read_revision(header: bytes) -> int:
    for number, value, _ in fields(header):
        if number == 3:
            return value
    return 0


def read_pair(data: bytes) -> KeyValue:
    key, created, value, lease = b"", 0, b"", 0
    for number, whole, part in fields(data):
        if number == 1:
            key = part
        elif number == 2:
            created = whole
        elif number == 5:
            value = part
        elif number == 6:
            lease = signed(whole)
    return KeyValue(key, created, value, lease)


def read_range(data: bytes) -> Found:
    revision, more = 0, False
    pairs: list[KeyValue] = []
    for number, whole, part in fields(data):
        if number == 1:
            revision = read_revision(part)
        elif number == 2:
            pairs.append(read_pair(part))
        elif number == 3:
            more = bool(whole)
    return Found(revision, pairs, more)


def read_txn(data: bytes) -> Outcome:
    revision, succeeded = 0, False
    found: list[Found] = []
    for number, whole, part in fields(data):
        if number == 1:
            revision = read_revision(part)
        elif number == 2:
            succeeded = bool(whole)
        elif number == 3:
            found += [read_range(inner) for kind, _, inner in fields(part) if kind == 1]
    return Outcome(revision, succeeded, found)


def read_success(data: bytes) -> int:
    """The revision of a transaction that succeeded, or 0: all that the hot path has to know.

    A success of today's servers begins with a header of cluster, member, revision and term, each
    once and in this order, and with the word that it is one. That is read here in one go, without
    calls; whatever looks different is read field by field.
    """
    revision, shift, place = 0, 0, 3
    try:
        while data[place] > 127:  # the cluster
            place += 1
        member = place + 1
        place += 2
        while data[place] > 127:
            place += 1
        number = place + 1
        place += 2
        while (byte := data[place]) > 127:
            revision |= (byte & 127) << shift
            shift += 7
            place += 1
        revision |= byte << shift
        term = place + 1
        place += 2
        while data[place] > 127:
            place += 1
        tags = data[0], data[2], data[member], data[number], data[term]
        if (
            tags == _HEADER_TAGS
            and data[1] == place - 1  # where the header ends
            and data[place + 1] == 0x10
            and data[place + 2] == 1
            and shift < 63
        ):
            return revision
    except IndexError:
        pass
    outcome = read_txn(data)
    return outcome.revision if outcome.succeeded else 0


_HEADER_TAGS = (0x0A, 0x08, 0x10, 0x18, 0x20)


def read_lease(data: bytes) -> Lease:
    """The answer to a grant, a keep-alive or a question about a lease."""
    named = {number: signed(value) for number, value, part in fields(data) if not part}
    return Lease(named.get(2, 0), named.get(3, 0), named.get(4, 0))


def read_token(data: bytes) -> str:
    return next((part.decode() for number, _, part in fields(data) if number == 2), "")


def read_news(data: bytes) -> News:
    watch, revision, created, ended = 0, 0, False, False
    deleted: list[bytes] = []
    for number, whole, part in fields(data):
        if number == 1:
            revision = read_revision(part)
        elif number == 2:
            watch = signed(whole)
        elif number == 3:
            created = bool(whole)
        elif number == 4:
            ended = bool(whole)
        elif number == 11:
            event = list(fields(part))
            if any(kind == 1 and value == 1 for kind, value, _ in event):
                deleted += [read_pair(pair).key for kind, _, pair in event if kind == 2]
    return News(watch, revision, created, ended, deleted)
