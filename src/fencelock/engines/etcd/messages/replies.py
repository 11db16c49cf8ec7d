"""Decode the replies of etcd into named tuples.

Field numbers are those of etcd's ``rpc.proto`` and ``kv.proto``, which are frozen. Nothing here
does I/O.
"""

from __future__ import annotations

from typing import NamedTuple

from .protobuf import fields, signed


class KeyValue(NamedTuple):
    key: bytes
    created: int
    """Create revision: the offset in the queue, and the fence."""
    value: bytes
    lease: int
    modified: int = 0
    """Revision of the last change."""


class RangeReply(NamedTuple):
    """The reply to a range: a part of the store at one revision."""

    revision: int
    pairs: list[KeyValue]
    more: bool
    total: int = 0
    """How many keys the range has, even if a limit kept some from the reply."""


class TxnReply(NamedTuple):
    """The reply to a transaction."""

    revision: int
    succeeded: bool
    found: list[RangeReply]
    """The replies of its ranges, in order; those of puts and deletes are left out."""


class LeaseReply(NamedTuple):
    id: int
    ttl: int
    """The remaining ttl, in seconds; 0 or less if there is no such lease."""
    granted_ttl: int = 0


class WatchReply(NamedTuple):
    """A message of a watch stream."""

    watch: int
    revision: int
    created: bool
    """The watch was created: it reports everything after this revision."""
    ended: bool
    """The server has canceled this watch."""
    changed: list[bytes]
    """The keys that were deleted or, if the watch is for puts too, put."""


def read_revision(header: bytes) -> int:
    for number, value, _ in fields(header):
        if number == 3:
            return value
    return 0


def read_key_value(data: bytes) -> KeyValue:
    key, created, value, lease, modified = b"", 0, b"", 0, 0
    for number, whole, part in fields(data):
        if number == 1:
            key = part
        elif number == 2:
            created = whole
        elif number == 5:
            value = part
        elif number == 6:
            lease = signed(whole)
        elif number == 3:
            modified = whole
    return KeyValue(key, created, value, lease, modified)


def read_range(data: bytes) -> RangeReply:
    revision, more, total = 0, False, 0
    pairs: list[KeyValue] = []
    for number, whole, part in fields(data):
        if number == 1:
            revision = read_revision(part)
        elif number == 2:
            pairs.append(read_key_value(part))
        elif number == 3:
            more = bool(whole)
        elif number == 4:
            total = whole
    return RangeReply(revision, pairs, more, total)


def read_txn(data: bytes) -> TxnReply:
    revision, succeeded = 0, False
    found: list[RangeReply] = []
    for number, whole, part in fields(data):
        if number == 1:
            revision = read_revision(part)
        elif number == 2:
            succeeded = bool(whole)
        elif number == 3:
            found += [read_range(inner) for kind, _, inner in fields(part) if kind == 1]
    return TxnReply(revision, succeeded, found)


def succeeded(data: bytes) -> bool:
    """Return whether a transaction succeeded.

    Servers send the field ``succeeded`` right after the header, which is short: that is checked
    first.
    """
    short_header = len(data) > 1 and data[0] == 0x0A and data[1] < 128
    if short_header and data.startswith(b"\x10\x01", data[1] + 2):
        return True
    return read_txn(data).succeeded


def read_success(data: bytes) -> int:
    """Return the revision of a transaction that succeeded, or 0.

    The reply of today's servers to a successful transaction begins with a header of cluster,
    member, revision and term, each once and in this order, and the field ``succeeded``. That is
    read here in one go, without calls; any other reply is read field by field.
    """
    revision, shift, offset = 0, 0, 3
    try:
        while data[offset] > 127:  # the cluster
            offset += 1
        member = offset + 1
        offset += 2
        while data[offset] > 127:
            offset += 1
        number = offset + 1
        offset += 2
        while (byte := data[offset]) > 127:
            revision |= (byte & 127) << shift
            shift += 7
            offset += 1
        revision |= byte << shift
        term = offset + 1
        offset += 2
        while data[offset] > 127:
            offset += 1
        tags = data[0], data[2], data[member], data[number], data[term]
        if (
            tags == _HEADER_TAGS
            and data[1] == offset - 1  # where the header ends
            and data[offset + 1] == 0x10
            and data[offset + 2] == 1
            and shift < 63
        ):
            return revision
    except IndexError:
        pass
    outcome = read_txn(data)
    return outcome.revision if outcome.succeeded else 0


_HEADER_TAGS = (0x0A, 0x08, 0x10, 0x18, 0x20)


def read_lease(data: bytes) -> LeaseReply:
    """Decode the reply to a LeaseGrant, a LeaseKeepAlive or a LeaseTimeToLive."""
    named = {number: signed(value) for number, value, part in fields(data) if not part}
    return LeaseReply(named.get(2, 0), named.get(3, 0), named.get(4, 0))


def read_token(data: bytes) -> str:
    return next((part.decode() for number, _, part in fields(data) if number == 2), "")


def read_watch(data: bytes) -> WatchReply:
    watch, revision, created, ended = 0, 0, False, False
    changed: list[bytes] = []
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
            changed += [read_key_value(pair).key for kind, _, pair in fields(part) if kind == 2]
    return WatchReply(watch, revision, created, ended, changed)


class Status(NamedTuple):
    version: str
    member: int
    leader: int
    size: int
    errors: list[str]
    is_learner: bool


def read_status(data: bytes) -> Status:
    version, member, leader, size, learner = "", 0, 0, 0, False
    errors: list[str] = []
    for number, whole, part in fields(data):
        if number == 1:
            member = next((value for kind, value, _ in fields(part) if kind == 2), 0)
        elif number == 2:
            version = part.decode()
        elif number == 3:
            size = whole
        elif number == 4:
            leader = whole
        elif number == 8:
            errors.append(part.decode())
        elif number == 10:
            learner = bool(whole)
    return Status(version, member, leader, size, errors, learner)


def count_voters(data: bytes) -> int:
    """Return how many members in the reply to MemberList vote: learners do not."""
    members = [part for number, _, part in fields(data) if number == 2]
    return sum(not _is_learner(member) for member in members)


def _is_learner(member: bytes) -> bool:
    return any(number == 5 and whole for number, whole, _ in fields(member))
