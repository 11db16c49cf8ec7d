"""The messages of etcd as bytes: what protobuf would write, and what it may write.

Expected bytes are those that ``protoc --encode`` makes of etcd's own definitions.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.engines.etcd.keys import JOIN, TRY, Keys
from fencelock.engines.etcd.messages import protobuf, replies, requests

INT64 = st.integers(-(2**63), 2**63 - 1)


def test_an_integer_is_written_in_groups_of_seven_bits() -> None:
    assert protobuf.varint(0) == b"\x00"
    assert protobuf.varint(127) == b"\x7f"
    assert protobuf.varint(128) == b"\x80\x01"
    assert protobuf.varint(300) == b"\xac\x02"
    assert protobuf.varint(2**63 - 1) == b"\xff" * 8 + b"\x7f"
    assert protobuf.varint(-1) == b"\xff" * 9 + b"\x01"


@given(INT64)
def test_every_int64_is_read_as_it_was_written(value: int) -> None:
    ((number, read, rest),) = protobuf.fields(
        protobuf.integer(7, value) or protobuf.varint(56) + b"\0"
    )
    assert (number, protobuf.signed(read), rest) == (7, value, b"")


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=300)), max_size=20))
def test_every_message_is_read_as_it_was_written(parts: list[tuple[int, bytes]]) -> None:
    data = b"".join(protobuf.message(number, part) for number, part in parts)
    assert [(number, part) for number, _, part in protobuf.fields(data)] == parts


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing that a server may send ends in another error, or in none at all."""
    readers = (
        replies.read_txn, replies.read_success, replies.succeeded,
        replies.read_range, replies.read_lease, replies.read_watch,
    )  # fmt: skip
    for read in readers:
        try:
            read(data)
        except protobuf.Malformed:
            pass


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x08", b"\x08\x80", b"\x0f", b"\x08" + b"\xff" * 11],
    ids=["no size", "short", "no value", "half a value", "unknown kind", "more than 64 bits"],
)
def test_a_message_that_was_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(protobuf.Malformed):
        list(protobuf.fields(data))


def test_a_comparison_names_its_value_even_when_it_is_nothing() -> None:
    """Which of several values is meant is said by its number: a missing one would mean another."""
    nobody = requests.equal(requests.CREATED, b"a/", 0, b"a0")
    assert nobody == b"\x10\x01\x1a\x02a/\x28\x00\x82\x04\x02a0"
    ours = requests.equal(requests.LEASED, b"k", 5)
    assert ours == b"\x10\x04\x1a\x01k\x40\x05"


def test_requests_are_what_protobuf_writes() -> None:
    assert requests.put(b"k", b"v", 3) == b"\x0a\x01k\x12\x01v\x18\x03"
    assert requests.attach(b"k", 3) == b"\x0a\x01k\x18\x03\x28\x01"
    first = requests.range_of(b"a/", b"a0", limit=1, oldest_first=True)
    assert first == b"\x0a\x02a/\x12\x02a0\x18\x01\x28\x01\x30\x02"
    ahead = requests.range_of(b"a/", b"a0", keys_only=True, created_max=9)
    assert ahead == b"\x0a\x02a/\x12\x02a0\x40\x01\x68\x09"
    both = requests.txn(
        [b"C"], [requests.do_put(b"P")], [requests.do_range(b"R"), requests.do_delete(b"D")]
    )
    assert both == b"\x0a\x01C\x12\x03\x12\x01P\x1a\x03\x0a\x01R\x1a\x03\x1a\x01D"
    watch = requests.watch_deletion(4, b"k")
    assert watch == b"\x0a\x08\x0a\x01k\x2a\x01\x00\x38\x04"
    assert requests.watch_no_more(4) == b"\x12\x02\x08\x04"
    assert requests.watch_range(4, b"k", b"", 0, False) == watch
    both = requests.watch_range(4, b"k", b"l", 9, True)
    assert both == b"\x0a\x0a\x0a\x01k\x12\x01l\x18\x09\x38\x04"


def test_answers_are_read() -> None:
    header = protobuf.message(1, protobuf.integer(1, 11) + protobuf.integer(3, 42))
    pair = (
        protobuf.text(1, b"k")
        + protobuf.integer(2, 40)
        + protobuf.text(5, b"v")
        + protobuf.integer(6, -9)
    )
    found = header + protobuf.message(2, pair) + protobuf.integer(3, 1) + protobuf.integer(4, 8)
    expected = replies.RangeReply(42, [replies.KeyValue(b"k", 40, b"v", -9)], True, 8)
    assert replies.read_range(found) == expected
    done = header + protobuf.integer(2, 1) + protobuf.message(3, protobuf.message(2, b""))
    done += protobuf.message(3, protobuf.message(1, found))
    assert replies.read_txn(done) == replies.TxnReply(42, True, [expected])
    assert replies.read_success(done) == 42
    assert replies.succeeded(done)
    assert replies.succeeded(header + protobuf.integer(99, 5) + protobuf.integer(2, 1))
    assert replies.succeeded(protobuf.message(1, b"\x62\xc8\x01" + b"x" * 200) + b"\x10\x01")
    assert replies.read_success(header + protobuf.message(3, protobuf.message(1, found))) == 0
    lease = header + protobuf.integer(2, 77) + protobuf.integer(3, -1) + protobuf.integer(4, 30)
    assert replies.read_lease(lease) == replies.LeaseReply(77, -1, 30)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=4, max_size=5), st.booleans(), st.booleans())
def test_a_success_is_read_alike_in_one_go_and_field_by_field(
    header: list[int], succeeded: bool, more: bool
) -> None:
    parts = [protobuf.integer(number, value) for number, value in enumerate(header, 1)]
    data = protobuf.message(1, b"".join(parts)) + protobuf.integer(2, succeeded)
    data += protobuf.message(3, protobuf.message(2, b"")) if more else b""
    outcome = replies.read_txn(data)
    assert replies.read_success(data) == (outcome.revision if outcome.succeeded else 0)
    assert replies.succeeded(data) == outcome.succeeded


@given(st.binary(max_size=60), st.integers(0, 20))
def test_what_only_begins_like_a_success_is_none(tail: bytes, cut: int) -> None:
    """A header that ends elsewhere, other fields in between, or a message that was cut short."""
    header = b"".join(protobuf.integer(number, 2**40 + number) for number in range(1, 5))
    for data in (
        protobuf.message(1, header + tail),
        (protobuf.message(1, header) + tail)[: -cut or None],
    ):
        try:
            outcome = replies.read_txn(data)
        except protobuf.Malformed:
            continue
        expected = outcome.revision if outcome.succeeded else 0
        if expected or not tail.startswith(b"\x10"):  # a server says once whether it succeeded
            assert replies.read_success(data) == expected
        if outcome.succeeded or not tail.startswith(b"\x10"):
            assert replies.succeeded(data) == outcome.succeeded


@pytest.mark.parametrize("form", [TRY, JOIN])
@given(value=st.binary(min_size=1, max_size=20_000), lease=st.integers(1, 2**63 - 1))
def test_the_bytes_around_a_value_are_those_of_the_whole_transaction(
    form: int, value: bytes, lease: int
) -> None:
    keys, key = Keys(b"p"), b"pname/1f"
    name = keys.requests("name")
    put = requests.do_put(requests.put(key, value, lease))
    free = requests.equal(requests.CREATED, key, 0)
    looks = [name.last_two, name.first, requests.range_of(key)]
    reads = [requests.do_range(look) for look in looks]
    joining = [protobuf.message(4, requests.txn([free], [put])), *reads]
    otherwise = {TRY: [reads[1]], JOIN: joining}[form]
    expected = requests.txn([name.nobody], [put], otherwise)
    encoded = keys.transactions("name", key, lease)
    assert encoded.acquire(value, form) == expected
    assert encoded.acquire(value, form) == expected


@given(created=st.integers(1, 2**63 - 1))
def test_a_key_is_left_by_its_own_create_revision(created: int) -> None:
    encoded = Keys(b"p").transactions("name", b"pname/1f", 7)
    same = requests.equal(requests.CREATED, b"pname/1f", created)
    expected = requests.txn([same], [requests.do_delete(requests.delete(b"pname/1f"))])
    assert encoded.release(created) == expected
    assert encoded.release(created) == expected


def test_news_tell_changes_and_ends() -> None:
    deleted = protobuf.integer(1, 1) + protobuf.message(2, protobuf.text(1, b"k"))
    written = protobuf.message(2, protobuf.text(1, b"other"))
    news = protobuf.integer(2, 3) + protobuf.message(11, written) + protobuf.message(11, deleted)
    assert replies.read_watch(news) == replies.WatchReply(3, 0, False, False, [b"other", b"k"])
    ended = protobuf.integer(2, 3) + protobuf.integer(4, 1)
    assert replies.read_watch(ended) == replies.WatchReply(3, 0, False, True, [])
    begun = (
        protobuf.message(1, protobuf.integer(3, 42))
        + protobuf.integer(2, 3)
        + protobuf.integer(3, 1)
    )
    assert replies.read_watch(begun) == replies.WatchReply(3, 42, True, False, [])


def test_fields_that_we_do_not_know_are_skipped() -> None:
    """Newer servers say more."""
    fixed = protobuf.varint(90 << 3 | 1) + b"12345678" + protobuf.varint(91 << 3 | 5) + b"1234"
    more = fixed + protobuf.message(99, b"new") + protobuf.integer(98, 5)
    assert replies.read_lease(
        more + protobuf.integer(2, 7) + protobuf.integer(3, 2)
    ) == replies.LeaseReply(7, 2)
