"""What a server says over a connection, and what becomes of the calls."""

from __future__ import annotations

import pytest

from fencelock.wires.grpc.connection import prefixed
from fencelock.wires.grpc.hpack import Malformed, write_block
from fencelock.wires.grpc.status import CODES
from tests.wires.grpc.peer import (
    ACK,
    CANCEL,
    DATA,
    END,
    END_HEADERS,
    HEADERS,
    MORE,
    PADDED,
    PING,
    PRIORITY,
    PUSH,
    RESET,
    SETTINGS,
    WINDOW,
    WITH_PRIORITY,
    Frame,
    Peer,
    answer,
    begun,
    ended,
    frame,
    headers,
    outcome,
    refusal,
    refused,
    settings,
)


def test_a_connection_begins_with_its_settings() -> None:
    """No table of headers, no pushes, and room for whatever the server sends."""
    first, second = Peer().greeting
    assert (first.kind, first.flags, first.number) == (SETTINGS, 0, 0)
    places = range(0, len(first.payload), 6)
    pairs = {first.payload[place + 1]: first.payload[place + 2 : place + 6] for place in places}
    assert {key: int.from_bytes(value, "big") for key, value in pairs.items()} == {
        1: 0,
        2: 0,
        4: 2**31 - 1,
    }
    assert second == Frame(WINDOW, 0, 0, (2**31 - 1 - 65_535).to_bytes(4, "big"))


def test_a_call_is_sent_whole() -> None:
    peer = Peer()
    peer.begin(b"question")
    head, body = peer.heard()
    assert (head.kind, head.flags, head.number) == (HEADERS, END_HEADERS, 1)
    assert head.headers == {":path": "/a/b"}
    assert body == Frame(DATA, END, 1, prefixed(b"question"))


@pytest.mark.parametrize("message", [b"", b"answer", b"x" * 50_000])
def test_an_answer_is_heard_in_one_piece_and_byte_by_byte(message: bytes) -> None:
    said = answer(1, message)
    for size in (len(said), 1000, 1):
        peer = Peer()
        call = peer.begin()
        for place in range(0, len(said), size):
            assert not call.done
            peer.says(said[place : place + size])
        assert outcome(call) == message
        assert peer.connection.idle


def test_answers_may_come_in_any_order_and_in_parts() -> None:
    peer = Peer()
    calls = [peer.begin() for _ in range(3)]
    body = prefixed(b"five") + b""
    peer.says(begun(5), begun(1), begun(3))
    peer.says(frame(DATA, 0, 5, body[:3]), frame(DATA, 0, 1, prefixed(b"one")))
    peer.says(frame(DATA, 0, 5, b""), frame(DATA, 0, 5, body[3:]), ended(5))
    assert [outcome(call) for call in calls] == [None, None, b"five"]
    peer.says(refused(3, 5, "none"), ended(1))
    assert outcome(calls[0]) == b"one"
    assert refusal(calls[1]) == ("NOT_FOUND", "none", False)
    assert [frame.number for frame in peer.heard() if frame.kind == HEADERS] == [1, 3, 5]


@pytest.mark.parametrize("number", range(1, 17))
def test_an_error_has_its_code_and_what_was_said(number: int) -> None:
    peer = Peer()
    call = peer.begin()
    peer.says(refused(1, number, "caf%C3%A9 100%25 %E2%82%AC"))
    assert refusal(call) == (CODES[number], "café 100% €", False)
    assert peer.connection.idle


@pytest.mark.parametrize("status", ["17", "-1", "", "x", "²", "00x", "9" * 5000])
def test_a_status_that_does_not_exist_is_unknown(status: str) -> None:
    peer = Peer()
    call = peer.begin()
    peer.says(ended(1, [(":status", "200"), ("grpc-status", status), ("grpc-message", "%zz%")]))
    assert refusal(call) == ("UNKNOWN", "%zz%", False)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("503", "UNAVAILABLE"),
        ("401", "UNAUTHENTICATED"),
        ("404", "UNIMPLEMENTED"),
        ("500", "UNKNOWN"),
    ],
)
@pytest.mark.parametrize("flags", [END_HEADERS, END_HEADERS | END])
def test_an_answer_that_is_not_of_grpc_says_so(status: str, code: str, flags: int) -> None:
    peer = Peer()
    call = peer.begin()
    peer.heard()
    peer.says(headers(1, [(":status", status)], flags))
    assert refusal(call) == (code, f"what answered is no gRPC server (HTTP status {status})", False)
    assert [frame.kind for frame in peer.heard()] == ([] if flags & END else [RESET])
    peer.says(frame(DATA, END, 1, b"<html>"))  # what is left of it


def test_headers_that_announce_others_are_passed_over() -> None:
    peer = Peer()
    call = peer.begin()
    peer.says(headers(1, [(":status", "100")]), answer(1, b"then"))
    assert outcome(call) == b"then"


def test_a_call_that_ends_without_trailers_has_no_known_end() -> None:
    peer = Peer()
    call = peer.begin()
    peer.says(begun(1), frame(DATA, END, 1, prefixed(b"answer")))
    code, _, unsent = refusal(call)
    assert (code, unsent) == ("UNKNOWN", False)


def test_a_call_that_ends_well_without_an_answer_is_an_error() -> None:
    peer = Peer()
    call = peer.begin()
    peer.says(begun(1), ended(1))
    code, _, unsent = refusal(call)
    assert (code, unsent) == ("INTERNAL", False)


def test_an_end_before_the_whole_request_was_taken_stops_the_rest() -> None:
    peer = Peer()
    call = peer.begin(b"x" * 100_000)
    peer.heard()
    peer.says(refused(1, 8, "too much"))
    assert refusal(call) == ("RESOURCE_EXHAUSTED", "too much", False)
    assert peer.heard() == [Frame(RESET, 0, 1, CANCEL.to_bytes(4, "big"))]


def test_padding_and_priorities_are_passed_over() -> None:
    peer = Peer()
    call = peer.begin()
    first = b"\x03" + b"\0\0\0\0\x10" + write_block([(":status", "200")]) + b"\0\0\0"
    last = b"\0\0\0\0\x10" + write_block([("grpc-status", "0")])
    peer.says(
        frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, 1, first),
        frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"),
        frame(DATA, PADDED, 1, b"\x04" + prefixed(b"answer") + b"\0\0\0\0"),
        frame(DATA, PADDED, 1, b"\0"),
        frame(HEADERS, END_HEADERS | END | WITH_PRIORITY, 1, last),
    )
    assert outcome(call) == b"answer"


@pytest.mark.parametrize("kind", [DATA, HEADERS])
@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x05abcd"])
def test_more_padding_than_content_is_malformed(kind: int, payload: bytes) -> None:
    peer = Peer()
    peer.begin()
    with pytest.raises(Malformed, match="padding"):
        peer.says(frame(kind, PADDED | END_HEADERS, 1, payload))


def test_headers_may_go_on_in_further_frames() -> None:
    peer = Peer()
    call = peer.begin()
    peer.heard()
    block = write_block([("grpc-status", "9"), ("grpc-message", "x" * 100)])
    peer.says(begun(1), frame(HEADERS, END, 1, block[:7]))
    peer.says(frame(MORE, 0, 1, block[7:50]), frame(MORE, 0, 1))
    assert not call.done
    peer.says(frame(MORE, END_HEADERS, 1, block[50:]))
    assert refusal(call) == ("FAILED_PRECONDITION", "x" * 100, False)
    assert peer.heard() == []  # it was the end, which the first of the frames said


@pytest.mark.parametrize(
    "then",
    [settings(), frame(MORE, END_HEADERS, 3, b""), begun(1), frame(DATA, 0, 1)],
    ids=["settings", "another call", "new headers", "data"],
)
def test_headers_that_are_broken_off_are_malformed(then: bytes) -> None:
    peer = Peer()
    peer.begin()
    with pytest.raises(Malformed, match="broken off"):
        peer.says(frame(HEADERS, 0, 1, b"\x88"), then)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (frame(MORE, END_HEADERS, 1, b"\x88"), "not begun"),
        (frame(PUSH, END_HEADERS, 1, b"\0\0\0\x02\x82"), "pushes"),
        (frame(DATA, 0, 1, b"x" * 16_385)[:9], "larger than allowed"),
        (frame(DATA, 0, 1, bytes(65_536)), "larger than allowed"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no HTTP/2"),
        (frame(HEADERS, 0, 1, b"\x88" * 16_384) + frame(MORE, 0, 1, b"\x88" * 16_384) * 4, "long"),
        (begun(1) + frame(DATA, 0, 1, b"\x01\0\0\0\x01x"), "compressed"),
        (frame(HEADERS, END_HEADERS, 1, b"\xbe"), "table"),
    ],
    ids=[
        *("going on", "a push", "too large", "far too large"),
        *("HTTP/1.1", "long headers", "compressed", "a table"),
    ],
)
def test_what_no_server_may_say_is_malformed(said: bytes, why: str) -> None:
    peer = Peer()
    peer.begin()
    peer.says(begun(1))
    with pytest.raises(Malformed, match=why):
        peer.says(said)


def test_pings_are_answered_and_settings_confirmed() -> None:
    peer = Peer()
    peer.says(frame(PING, 0, 0, b"12345678"), settings(), frame(PING, ACK, 0, b"fencelck"))
    peer.says(frame(SETTINGS, ACK, 0))
    assert set(peer.heard()) == {Frame(PING, ACK, 0, b"12345678"), Frame(SETTINGS, ACK, 0, b"")}


def test_frames_of_unknown_kinds_and_calls_are_passed_over() -> None:
    peer = Peer()
    call = peer.begin()
    peer.heard()
    peer.says(frame(0xBE, 0xFF, 1, b"?"), frame(DATA, END, 99, b"?"), ended(99), frame(DATA, 0, 0))
    assert (call.done, peer.heard()) == (False, [])
