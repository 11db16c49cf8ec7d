"""Encode the requests that a lock sends to etcd, with a function for each.

Field numbers are those of etcd's ``rpc.proto`` and ``kv.proto``, which
are frozen. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

from .protobuf import INT, integer, message, text, varint

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
LEASE_LOOK = "/etcdserverpb.Lease/LeaseTimeToLive"
# A stream in etcd's API. One request and the end of the requests bring one reply and the end of the
# replies, which is what a unary call looks like.
LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
WATCH = "/etcdserverpb.Watch/Watch"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
STATUS = "/etcdserverpb.Maintenance/Status"
MEMBERS = "/etcdserverpb.Cluster/MemberList"

# The targets of a comparison: create revision, mod revision, value, lease.
CREATED, MODIFIED, VALUED, LEASED = 1, 2, 3, 4
_COMPARED_FIELD = {CREATED: 5, MODIFIED: 6, LEASED: 8}
_GREATER = integer(1, 1)
_RANGE_END_OF_COMPARE = 64


def equal(target: int, key: bytes, value: int, end: bytes = b"") -> bytes:
    """Encode a comparison for equality. Over a range it must hold for every key, so it holds for
    none too."""
    # The value is sent even if it is 0: it is a oneof, and its field says which.
    body = integer(2, target) + text(3, key)
    body += varint(_COMPARED_FIELD[target] << 3 | INT) + varint(value)
    return body + text(_RANGE_END_OF_COMPARE, end)


def exists(key: bytes, end: bytes) -> bytes:
    """Encode a comparison that holds if there is a key in a range."""
    return _GREATER + equal(CREATED, key, 0, end)


def same_value(key: bytes, value: bytes) -> bytes:
    """Encode a comparison of the whole value; it does not hold for a key that does not exist."""
    return integer(2, VALUED) + text(3, key) + message(7, value)


def put(key: bytes, value: bytes, lease: int) -> bytes:
    return text(1, key) + text(2, value) + integer(3, lease)


def attach(key: bytes, lease: int) -> bytes:
    """Encode a put that changes the lease of a key and nothing else (``ignore_value``)."""
    return text(1, key) + integer(3, lease) + integer(5, 1)


def rewrite(key: bytes, value: bytes) -> bytes:
    """Encode a put that changes the value of a key and keeps its lease (``ignore_lease``)."""
    return text(1, key) + text(2, value) + integer(6, 1)


def delete(key: bytes) -> bytes:
    return text(1, key)


def range_of(
    key: bytes,
    end: bytes = b"",
    *,
    limit: int = 0,
    oldest_first: bool = False,
    newest_first: bool = False,
    keys_only: bool = False,
    count_only: bool = False,
    created_min: int = 0,
    created_max: int = 0,
    revision: int = 0,
) -> bytes:
    """Encode a linearizable read of the keys from ``key`` up to ``end``, or of one key."""
    body = text(1, key) + text(2, end) + integer(3, limit) + integer(4, revision)
    if oldest_first:
        body += _OLDEST_FIRST
    if newest_first:
        body += _NEWEST_FIRST
    body += integer(8, keys_only) + integer(9, count_only)
    return body + integer(12, created_min) + integer(13, created_max)


_OLDEST_FIRST = integer(5, 1) + integer(6, 2)  # ascending, by create revision
_NEWEST_FIRST = integer(5, 2) + integer(6, 2)


def do_range(request: bytes) -> bytes:
    return message(1, request)


def do_put(request: bytes) -> bytes:
    return message(2, request)


def do_delete(request: bytes) -> bytes:
    return message(3, request)


def do_txn(request: bytes) -> bytes:
    return message(4, request)


def txn(compare: Sequence[bytes], success: Sequence[bytes], failure: Sequence[bytes] = ()) -> bytes:
    """Encode a transaction of comparisons and of operations encoded by ``do_…``."""
    body = b"".join([message(1, one) for one in compare])
    body += b"".join([message(2, one) for one in success])
    return body + b"".join([message(3, one) for one in failure])


def lease_grant(ttl: int) -> bytes:
    return integer(1, ttl)


def lease_named(lease: int) -> bytes:
    """Encode the request to revoke, keep alive or look up a lease."""
    return integer(1, lease)


def authenticate(user: str, password: str) -> bytes:
    return text(1, user.encode()) + text(2, password.encode())


def watch_deletion(watch: int, key: bytes, since: int = 0) -> bytes:
    """Encode the creation of a watch for one key's deletion, from now or from a revision on;
    ``watch`` is its id, which the client chooses."""
    return message(1, text(1, key) + integer(3, since) + _WITHOUT_PUTS + integer(7, watch))


def watch_range(watch: int, key: bytes, end: bytes, since: int, puts: bool) -> bytes:
    """Encode the creation of a watch of a range or one key, for deletions and, if wanted, puts."""
    body = text(1, key) + text(2, end) + integer(3, since)
    return message(1, body + (b"" if puts else _WITHOUT_PUTS) + integer(7, watch))


_WITHOUT_PUTS = b"\x2a\x01\x00"  # field 5, packed: NOPUT


def watch_no_more(watch: int) -> bytes:
    return message(2, integer(1, watch))
