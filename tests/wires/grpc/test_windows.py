"""How much may be under way: we keep to what the server allows, and allow it enough."""

from __future__ import annotations

import pytest

from fencelock.wires.grpc import connection
from fencelock.wires.grpc.connection import Call, prefixed
from tests.wires.grpc.peer import (
    DATA,
    END,
    HEADERS,
    INITIAL_WINDOW,
    RESET,
    SETTINGS,
    WINDOW,
    Frame,
    Peer,
    answer,
    begun,
    ended,
    frame,
    outcome,
    reset,
    settings,
    window,
)

FIRST = 65_535  # what both sides may send before anything was said


def _data(peer: Peer) -> dict[int, bytes]:
    """What was sent of each call; each frame of an allowed size, and the end behind the last."""
    sent: dict[int, bytes] = {}
    ends: set[int] = set()
    for one in peer.heard():
        if one.kind == DATA:
            assert one.number not in ends
            assert 0 < len(one.payload) <= 16_384
            sent[one.number] = sent.get(one.number, b"") + one.payload
            if one.flags & END:
                ends.add(one.number)
    sent[0] = bytes(sorted(ends))
    return sent


def test_a_large_request_is_sent_as_the_server_takes_it() -> None:
    peer = Peer()
    message = bytes(range(256)) * 1000
    whole = prefixed(message)
    call = peer.begin(message)
    sent = _data(peer)
    assert sent == {0: b"", 1: whole[:FIRST]}
    peer.says(window(1, 1000))
    assert _data(peer) == {0: b""}  # the connection has no room
    peer.says(window(0, 700))
    assert _data(peer) == {0: b"", 1: whole[FIRST : FIRST + 700]}
    peer.says(window(0, 2**20))
    assert _data(peer) == {0: b"", 1: whole[FIRST + 700 : FIRST + 1000]}
    peer.says(window(1, 2**20))
    assert _data(peer) == {0: b"\x01", 1: whole[FIRST + 1000 :]}
    peer.says(answer(1, b"got it"))
    assert (outcome(call), peer.heard()) == (b"got it", [])


def test_the_last_byte_waits_for_its_room() -> None:
    for size in (FIRST, FIRST + 1):
        peer = Peer()
        peer.begin(b"x" * (size - 5))
        assert _data(peer) == {0: b"\x01"[: size == FIRST], 1: prefixed(b"x" * (size - 5))[:FIRST]}
        peer.says(window(0, 1), window(1, 1))
        assert _data(peer) == ({0: b""} if size == FIRST else {0: b"\x01", 1: b"x"})


@pytest.mark.parametrize("size", [0, 1, 4])
def test_not_even_a_small_request_goes_where_there_is_no_room(size: int) -> None:
    peer = Peer((INITIAL_WINDOW, size))
    peer.begin(b"")
    assert _data(peer) == ({0: b"", 1: b"\0" * size} if size else {0: b""})
    peer.says(window(1, 5 - size))
    assert _data(peer) == {0: b"\x01", 1: b"\0" * (5 - size)}


def test_all_calls_share_the_room_of_the_connection() -> None:
    peer = Peer()
    peer.begin(b"x" * 60_000)
    peer.begin(b"y" * 10_000)
    peer.begin(b"")
    sent = _data(peer)
    assert (len(sent[1]), len(sent[3]), sent.get(5), sent[0]) == (60_005, 5_530, None, b"\x01")
    peer.says(window(0, 5_000))
    sent = _data(peer)
    assert (len(sent[3]), sent.get(5), sent[0]) == (4_475, b"\0" * 5, b"\x03\x05")


def test_the_server_may_raise_what_each_call_may_send() -> None:
    peer = Peer((INITIAL_WINDOW, 100))
    peer.begin(b"x" * 1000)
    peer.begin(b"y" * 1000)
    peer.says(settings((INITIAL_WINDOW, 300)))
    sent = _data(peer)
    assert (len(sent[1]), len(sent[3]), sent[0]) == (300, 300, b"")
    peer.says(settings((INITIAL_WINDOW, 2000)))
    assert _data(peer)[0] == b"\x01\x03"


def test_what_each_call_may_send_can_be_lowered_below_what_it_sent() -> None:
    peer = Peer((INITIAL_WINDOW, 1000))
    peer.begin(b"x" * 3000)
    assert len(_data(peer)[1]) == 1000
    peer.says(settings((INITIAL_WINDOW, 400)))  # it has now sent 600 too many
    peer.begin(b"y" * 3000)
    assert len(_data(peer)[3]) == 400
    peer.says(window(1, 600))
    assert _data(peer) == {0: b""}
    peer.says(window(1, 7))
    assert len(_data(peer)[1]) == 7
    peer.says(settings((INITIAL_WINDOW, 410)))
    sent = _data(peer)
    assert (len(sent[1]), len(sent[3])) == (10, 10)


def test_what_was_sent_of_a_small_request_counts_as_well() -> None:
    peer = Peer()
    for _ in range(6):
        peer.begin(b"x" * 10_000)
    _data(peer)
    peer.begin(b"y" * 10_000)
    assert len(_data(peer)[13]) == FIRST - 6 * 10_005


def test_the_messages_of_a_stream_keep_their_order_and_do_not_end_it() -> None:
    peer = Peer((INITIAL_WINDOW, 10))
    stream = Call(b"", None, goes_on=True)
    peer.connection.open(stream)
    assert [one.kind for one in peer.heard()] == [HEADERS]
    peer.connection.send(stream, b"abcdefgh")
    peer.connection.send(stream, b"")
    peer.connection.send(stream, b"z")
    whole = prefixed(b"abcdefgh") + prefixed(b"") + prefixed(b"z")
    assert _data(peer) == {0: b"", 1: whole[:10]}
    peer.says(window(1, 100))
    assert _data(peer) == {0: b"", 1: whole[10:]}
    peer.says(begun(1), ended(1))
    assert [one.kind for one in peer.heard()] == [RESET]
    peer.connection.send(stream, b"too late")
    assert peer.heard() == []


def test_room_for_a_call_that_is_over_is_passed_over() -> None:
    peer = Peer()
    call = peer.begin(b"x" * 100_000)
    peer.heard()
    peer.says(reset(1, 8), window(1, 1000), window(0, 1000), window(99, 1))
    assert (call.done, peer.heard()) == (True, [])


def test_the_server_is_given_new_room_before_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WINDOW_LOW", 100)
    peer = Peer()
    calls = [peer.begin(), peer.begin()]
    peer.heard()
    body = prefixed(b"x" * 400)
    peer.says(begun(1), begun(3), frame(DATA, 0, 1, body[:60]), frame(DATA, 0, 3, body[:39]))
    assert peer.heard() == []
    peer.says(frame(DATA, 0, 1, body[60:110]))
    assert peer.heard() == [_room(0, 149), _room(1, 110)]
    peer.says(frame(DATA, 8, 3, b"\x63" + body[39:139] + bytes(99)))  # padding counts, too
    assert peer.heard() == [_room(0, 200), _room(3, 239)]
    peer.says(frame(DATA, 0, 1, body[110:]), ended(1), frame(DATA, 0, 3, body[139:]), ended(3))
    assert [outcome(call) for call in calls] == [b"x" * 400] * 2


def test_what_comes_for_no_call_uses_up_room_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WINDOW_LOW", 100)
    peer = Peer()
    call = peer.begin()
    peer.connection.cancel(call)
    peer.heard()
    peer.says(begun(1), frame(DATA, 0, 1, bytes(99)), frame(DATA, 0, 1, bytes(2)))
    assert peer.heard() == [_room(0, 101)]


def test_half_a_setting_is_passed_over() -> None:
    peer = Peer()
    peer.says(frame(SETTINGS, 0, 0, b"\0\x03\0"))
    assert [one.kind for one in peer.heard()] == [SETTINGS]


def _room(number: int, more: int) -> Frame:
    return Frame(WINDOW, 0, number, more.to_bytes(4, "big"))
