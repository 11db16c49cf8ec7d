"""The messages of etcd as bytes: what protobuf would write, and what it may write.

Expected bytes are those that ``protoc --encode`` makes of etcd's own definitions.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.engines.etcd import codec
from fencelock.engines.etcd.naming import Naming

INT64 = st.integers(-(2**63), 2**63 - 1)


def test_an_integer_is_written_in_groups_of_seven_bits() -> None:
    assert codec.varint(0) == b"\x00"
    assert codec.varint(127) == b"\x7f"
    assert codec.varint(128) == b"\x80\x01"
    assert codec.varint(300) == b"\xac\x02"
    assert codec.varint(2**63 - 1) == b"\xff" * 8 + b"\x7f"
    assert codec.varint(-1) == b"\xff" * 9 + b"\x01"


@given(INT64)
def test_every_int64_is_read_as_it_was_written(value: int) -> None:
    ((number, read, rest),) = codec.fields(codec.integer(7, value) or codec.varint(56) + b"\0")
    assert (number, codec.signed(read), rest) == (7, value, b"")


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=300)), max_size=20))
def test_every_message_is_read_as_it_was_written(parts: list[tuple[int, bytes]]) -> None:
    data = b"".join(codec.message(number, part) for number, part in parts)
    assert [(number, part) for number, _, part in codec.fields(data)] == parts


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing that a server may send ends in another error, or in none at all."""
    readers = (
        codec.read_txn, codec.read_success, codec.read_range, codec.read_lease, codec.read_news
    )  # fmt: skip
    for read in readers:
        try:
            read(data)
        except codec.Malformed:
            pass


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x08", b"\x08\x80", b"\x0f", b"\x08" + b"\xff" * 11],
    ids=["no size", "short", "no value", "half a value", "unknown kind", "more than 64 bits"],
)
def test_a_message_that_was_cut_short_is_refused(data: bytes) -> None:
    with pytest.raises(codec.Malformed):
        list(codec.fields(data))


def test_a_comparison_names_its_value_even_when_it_is_nothing() -> None:
    """Which of several values is meant is said by its number: a missing one would mean another."""
    nobody = codec.equal(codec.CREATED, b"a/", 0, b"a0")
    assert nobody == b"\x10\x01\x1a\x02a/\x28\x00\x82\x04\x02a0"
    ours = codec.equal(codec.LEASED, b"k", 5)
    assert ours == b"\x10\x04\x1a\x01k\x40\x05"


def test_requests_are_what_protobuf_writes() -> None:
    assert codec.put(b"k", b"v", 3) == b"\x0a\x01k\x12\x01v\x18\x03"
    assert codec.attach(b"k", 3) == b"\x0a\x01k\x18\x03\x28\x01"
    first = codec.range_of(b"a/", b"a0", limit=1, oldest_first=True)
    assert first == b"\x0a\x02a/\x12\x02a0\x18\x01\x28\x01\x30\x02"
    ahead = codec.range_of(b"a/", b"a0", keys_only=True, created_max=9)
    assert ahead == b"\x0a\x02a/\x12\x02a0\x40\x01\x68\x09"
    both = codec.txn([b"C"], [codec.do_put(b"P")], [codec.do_range(b"R"), codec.do_delete(b"D")])
    assert both == b"\x0a\x01C\x12\x03\x12\x01P\x1a\x03\x0a\x01R\x1a\x03\x1a\x01D"
    watch = codec.watch_deletion(4, b"k")
    assert watch == b"\x0a\x08\x0a\x01k\x2a\x01\x00\x38\x04"
    assert codec.watch_no_more(4) == b"\x12\x02\x08\x04"


def test_answers_are_read() -> None:
    header = codec.message(1, codec.integer(1, 11) + codec.integer(3, 42))
    pair = codec.text(1, b"k") + codec.integer(2, 40) + codec.text(5, b"v") + codec.integer(6, -9)
    found = header + codec.message(2, pair) + codec.integer(3, 1) + codec.integer(4, 8)
    expected = codec.Found(42, [codec.KeyValue(b"k", 40, b"v", -9)], True)
    assert codec.read_range(found) == expected
    done = header + codec.integer(2, 1) + codec.message(3, codec.message(2, b""))
    done += codec.message(3, codec.message(1, found))
    assert codec.read_txn(done) == codec.Outcome(42, True, [expected])
    assert codec.read_success(done) == 42
    assert codec.read_success(header + codec.message(3, codec.message(1, found))) == 0
    lease = header + codec.integer(2, 77) + codec.integer(3, -1) + codec.integer(4, 30)
    assert codec.read_lease(lease) == codec.Lease(77, -1, 30)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=4, max_size=5), st.booleans(), st.booleans())
def test_a_success_is_read_alike_in_one_go_and_field_by_field(
    header: list[int], succeeded: bool, more: bool
) -> None:
    parts = [codec.integer(number, value) for number, value in enumerate(header, 1)]
    data = codec.message(1, b"".join(parts)) + codec.integer(2, succeeded)
    data += codec.message(3, codec.message(2, b"")) if more else b""
    outcome = codec.read_txn(data)
    assert codec.read_success(data) == (outcome.revision if outcome.succeeded else 0)


@given(st.binary(max_size=60), st.integers(0, 20))
def test_what_only_begins_like_a_success_is_none(tail: bytes, cut: int) -> None:
    """A header that ends elsewhere, other fields in between, or a message that was cut short."""
    header = b"".join(codec.integer(number, 2**40 + number) for number in range(1, 5))
    for data in (
        codec.message(1, header + tail),
        (codec.message(1, header) + tail)[: -cut or None],
    ):
        try:
            outcome = codec.read_txn(data)
        except codec.Malformed:
            continue
        expected = outcome.revision if outcome.succeeded else 0
        if expected or not tail.startswith(b"\x10"):  # a server says once whether it succeeded
            assert codec.read_success(data) == expected


@pytest.mark.parametrize("queues", [False, True])
@given(value=st.binary(min_size=1, max_size=20_000), lease=st.integers(1, 2**63 - 1))
def test_the_bytes_around_a_value_are_those_of_the_whole_transaction(
    queues: bool, value: bytes, lease: int
) -> None:
    naming, key = Naming(b"p"), b"pname/1f"
    ways = naming.ways("name")
    put = codec.do_put(codec.put(key, value, lease))
    free = codec.equal(codec.CREATED, key, 0)
    mine = codec.do_range(codec.range_of(key))
    joining = [codec.do_txn(codec.txn([free], [put])), *ways.reads, mine]
    expected = codec.txn([ways.nobody], [put], joining if queues else ways.reads)
    steps = naming.steps("name", key, lease)
    assert steps.join(value, queues) == expected
    assert steps.join(value, queues) == expected


def test_news_tell_deletions_and_ends() -> None:
    deleted = codec.integer(1, 1) + codec.message(2, codec.text(1, b"k"))
    written = codec.message(2, codec.text(1, b"other"))
    news = codec.integer(2, 3) + codec.message(11, written) + codec.message(11, deleted)
    assert codec.read_news(news) == codec.News(3, 0, False, False, [b"k"])
    ended = codec.integer(2, 3) + codec.integer(4, 1)
    assert codec.read_news(ended) == codec.News(3, 0, False, True, [])
    begun = codec.message(1, codec.integer(3, 42)) + codec.integer(2, 3) + codec.integer(3, 1)
    assert codec.read_news(begun) == codec.News(3, 42, True, False, [])


def test_fields_that_we_do_not_know_are_skipped() -> None:
    """Newer servers say more."""
    fixed = codec.varint(90 << 3 | 1) + b"12345678" + codec.varint(91 << 3 | 5) + b"1234"
    more = fixed + codec.message(99, b"new") + codec.integer(98, 5)
    assert codec.read_lease(more + codec.integer(2, 7) + codec.integer(3, 2)) == codec.Lease(7, 2)
