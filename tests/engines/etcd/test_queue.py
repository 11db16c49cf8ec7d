"""What a contender makes of what etcd tells of the queue, told by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.messages import protobuf, replies, requests
from fencelock.engines.etcd.messages.replies import KeyValue, RangeReply
from fencelock.engines.etcd.messages.requests import RANGE, TXN
from fencelock.engines.etcd.own_key import LATELY_S, Lease, OwnKey
from fencelock.engines.etcd.queue import LONG, Ahead, Queue
from fencelock.worlds.threads import drive

REVISION, LEASE = 900, 7


def key_of(number: int, name: bytes = b"seat") -> KeyValue:
    return KeyValue(b"%s/%x" % (name, number), number, b"", LEASE)


def told(pairs: list[KeyValue], more: bool = False) -> bytes:
    """The answer to a range."""
    body = protobuf.message(1, protobuf.integer(3, REVISION))
    for pair in pairs:
        one = protobuf.text(1, pair.key) + protobuf.integer(2, pair.created)
        body += protobuf.message(2, one + protobuf.text(5, pair.value) + protobuf.integer(6, LEASE))
    return body + protobuf.integer(3, more)


def told_both(near: list[KeyValue], first: list[KeyValue]) -> bytes:
    """The answer to a transaction of two of them."""
    header = protobuf.message(1, protobuf.integer(3, REVISION)) + protobuf.integer(2, 1)
    reads = (protobuf.message(1, told(near)), protobuf.message(1, told(first)))
    return header + b"".join(protobuf.message(3, read) for read in reads)


class Told(Cluster):
    """A link whose answers stand before anybody asks."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, bytes]] = []

    async def call(self, method: str, request: bytes, **_: Any) -> bytes:
        self.asked.append((method, request))
        return self.answers.pop(0)


def own_key(pair: KeyValue) -> OwnKey:
    own = OwnKey("owner", pair.key, b"mine", Lease(LEASE, 30.0, 0.0), 0.0)
    own.created = pair.created
    return own


MINE, KEYS = key_of(100), Keys(b"")
MANY = [key_of(number) for number in range(1, LONG + 2)]


def ahead(*answers: bytes) -> tuple[Ahead, list[str]]:
    told_by = Told(*answers)
    found = drive(Queue(told_by, KEYS).ahead("seat", own_key(MINE)))
    assert told_by.answers == []
    return found, [method for method, _ in told_by.asked]


def test_who_has_nobody_before_it_reads_one_key() -> None:
    assert ahead(told([MINE])) == (Ahead(REVISION, MINE, None, None, 0), [RANGE])


def test_a_short_queue_is_read_whole() -> None:
    found, asked = ahead(told([key_of(3), MINE, key_of(2)]))
    assert found == Ahead(REVISION, MINE, key_of(2), key_of(3), 2)
    assert not found.is_long
    assert asked == [RANGE]


@pytest.mark.parametrize("left", [[], [key_of(2)], [key_of(99), key_of(2)]])
def test_a_key_that_is_gone_is_missed(left: list[KeyValue]) -> None:
    assert ahead(told(left))[0].mine is None
    again = KeyValue(MINE.key, 200, b"", LEASE)  # the same key, made anew
    assert ahead(told([*left, again]))[0].mine is None


def test_of_a_long_queue_the_ends_are_read() -> None:
    found, asked = ahead(told(MANY, more=True), told_both([MINE, key_of(99)], [key_of(1)]))
    assert found == Ahead(REVISION, MINE, key_of(1), key_of(99), None)
    assert found.is_long
    assert asked == [RANGE, TXN]


def test_a_long_queue_may_be_gone_a_moment_later() -> None:
    found, _ = ahead(told(MANY, more=True), told_both([MINE], [MINE]))
    assert found == Ahead(REVISION, MINE, None, None, 0)
    assert ahead(told(MANY, more=True), told_both([key_of(99)], [key_of(1)]))[0].mine is None
    assert ahead(told(MANY, more=True), told_both([], []))[0].mine is None


def test_names_below_make_it_read_all() -> None:
    inner = key_of(98, b"seat/inner")
    ends = told_both([MINE, inner], [key_of(1)])
    found, asked = ahead(told(MANY, more=True), ends, told([*MANY, inner, MINE]))
    assert found == Ahead(REVISION, MINE, key_of(1), key_of(LONG + 1), LONG + 1)
    assert asked == [RANGE, TXN, RANGE]


def joined(last_two: list[KeyValue], first: KeyValue, total: int = 5) -> Ahead | None:
    finds = [
        RangeReply(REVISION, last_two, True, total),
        RangeReply(REVISION, [first], True, total),
    ]
    outcome = replies.TxnReply(REVISION, False, [*finds, RangeReply(REVISION, [MINE], False, 1)])
    return Queue(Told(), KEYS).joined("seat", own_key(MINE), outcome)


def test_a_newcomer_knows_who_is_before_it() -> None:
    expected = Ahead(REVISION, MINE, key_of(1), key_of(99), 4)
    assert joined([MINE, key_of(99)], key_of(1)) == expected
    assert joined([MINE, key_of(1)], key_of(1), 2) == Ahead(REVISION, MINE, key_of(1), key_of(1), 1)


def test_who_stood_there_before_others_came_must_look() -> None:
    """Its first request was not answered: who is last now came after it."""
    assert joined([key_of(101), MINE], key_of(1)) is None
    assert joined([key_of(102), key_of(101)], key_of(1)) is None


@pytest.mark.parametrize("inner", [key_of(99, b"seat/inner"), key_of(1, b"seat/inner")])
def test_who_joins_beside_names_below_must_look(inner: KeyValue) -> None:
    low = inner.created == 1
    before, first = (key_of(99), inner) if low else (inner, key_of(1))
    assert joined([MINE, before], first) is None


def test_the_ends_are_asked_for_by_age() -> None:
    reads = KEYS.requests("seat")
    newest = requests.range_of(b"seat/", b"seat0", limit=2, newest_first=True, keys_only=True)
    assert reads.last_two == newest
    assert newest != requests.range_of(
        b"seat/", b"seat0", limit=2, oldest_first=True, keys_only=True
    )


def test_a_lease_that_another_is_extending_is_left_to_it() -> None:
    lease = Lease(LEASE, 30.0, 0.0)
    assert not lease.wants_extension(lease.fresh_until)
    late = lease.fresh_until + 1.0
    assert lease.wants_extension(late)
    lease.tried_at = late
    assert not lease.wants_extension(late + LATELY_S)
    assert lease.wants_extension(late + LATELY_S + 0.1)
    lease.tried_at = 16.0
    assert lease.wants_extension(16.0), "little of it is left"
