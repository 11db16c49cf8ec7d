"""The protocol, read as it comes in: in one piece, byte by byte, or wrong."""

from __future__ import annotations

import pytest

from fencelock.engines.mysql.wire.codec import (
    ProtocolError,
    Reply,
    Response,
    ServerError,
    query_packet,
    read_ok,
)


def packet(sequence: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([sequence]) + body


OK = packet(1, b"\x00\x01\xfd\x40\x42\x0f\x02\x00\x00\x00")
ROWS = b"".join(
    [
        packet(1, b"\x02"),
        packet(2, b"definition of a column"),
        packet(3, b"and of another"),
        packet(4, b"\xfe\x00\x00\x02\x00"),
        packet(5, b"\x031st\xfb"),
        packet(6, b"\x00\xfc\x03\x00abc"),
        packet(7, b"\xfe\x00\x00\x02\x00"),
    ]
)
MORE = packet(1, b"\x00\x00\x00\x0a\x00\x00\x00")
ERROR = packet(2, b"\xff\x1d\x05#70100Query execution was interrupted")


def test_a_query_is_one_packet() -> None:
    assert query_packet("DO 1") == b"\x05\x00\x00\x00\x03DO 1"
    with pytest.raises(ProtocolError):
        query_packet("x" * (1 << 24))


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_rows_are_read_in_pieces_of_any_size(step: int) -> None:
    response = Response()
    pieces = [ROWS[at : at + step] for at in range(0, len(ROWS), step)]
    assert [response.feed(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert response.result() == [Reply([(b"1st", None), (b"", b"abc")])]


def test_numbers_of_any_length_come_with_an_ok() -> None:
    response = Response()
    assert response.feed(OK)
    assert response.result() == [Reply([], 1, 1_000_000)]


def test_a_short_answer_is_read_in_one_step_and_no_other_is() -> None:
    long = packet(
        1, b"\x00\xfc\x01\x02\xfe" + (1 << 60).to_bytes(8, "little") + b"\x02\x00\x00\x00"
    )
    assert read_ok(OK) == [Reply([], 1, 1_000_000)]
    assert read_ok(long) == [Reply([], 513, 1 << 60)]
    unasked = packet(0, OK[4:])
    for other in (b"", OK[:3], OK[:-1], OK + OK, MORE, MORE + OK, ROWS, ERROR, unasked):
        assert read_ok(other) is None


def test_an_error_ends_the_answer_and_keeps_what_came_before() -> None:
    response = Response()
    assert response.feed(MORE + ERROR)
    assert response.is_refused
    with pytest.raises(ServerError) as refused:
        response.result()
    assert (refused.value.code, refused.value.message) == (1309, "Query execution was interrupted")
    assert refused.value.replies == [Reply([])]


@pytest.mark.parametrize(
    "wrong",
    [
        OK + b"more",  # more than was asked for
        packet(0, ERROR[4:]),  # said before we asked: a good-bye
        packet(1, b"\xfb/etc/passwd"),  # the server asks for a file
        b"\xff\xff\xff\x01",
    ],
)
def test_what_is_no_answer_is_not_taken_for_one(wrong: bytes) -> None:
    with pytest.raises(ProtocolError):
        Response().feed(wrong + b"\0" * (1 << 24) if wrong.startswith(b"\xff\xff") else wrong)
