"""Whatever a server sends, the only error is that it is malformed, and every call has one end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencelock.wires.grpc.connection import Call, prefixed
from fencelock.wires.grpc.hpack import Malformed
from fencelock.wires.grpc.status import RpcError
from tests.wires.grpc.peer import (
    CALLS_MAX,
    INITIAL_WINDOW,
    Peer,
    answer,
    begun,
    ended,
    farewell,
    frame,
    refused,
    reset,
    settings,
    window,
)


class _Counted(Call):
    """A call that counts its ends."""

    __slots__ = ("ends",)

    def __init__(self, message: bytes, goes_on: bool) -> None:
        super().__init__(b"\x83", message, goes_on)
        self.ends = 0

    def on_end(self) -> None:
        self.ends += 1


_NUMBERS = st.sampled_from([0, 1, 3, 5, 7, 9, 99, 2**31 - 1])
_SIZES = st.integers(0, 2**31 - 1) | st.integers(0, 300)
_ANY = st.builds(
    frame,
    st.integers(0, 10),
    st.integers(0, 255),
    _NUMBERS,
    st.binary(max_size=40) | st.binary(max_size=40).map(prefixed),
)
_SENSIBLE = st.one_of(
    st.builds(begun, _NUMBERS),
    st.builds(ended, _NUMBERS),
    st.builds(refused, _NUMBERS, st.integers(0, 20)),
    st.builds(answer, _NUMBERS, st.binary(max_size=40)),
    st.builds(reset, _NUMBERS, st.integers(0, 14)),
    st.builds(window, _NUMBERS, _SIZES),
    st.builds(farewell, _NUMBERS, st.integers(0, 14), st.binary(max_size=20)),
    st.builds(settings, st.tuples(st.just(INITIAL_WINDOW), _SIZES)),
    st.builds(settings, st.tuples(st.just(CALLS_MAX), st.integers(0, 4))),
)
# What we do between what the server says: begin a call, send on, cancel, or have it all fail.
_DEEDS = st.tuples(st.sampled_from(["begin", "stream", "send", "cancel"]), st.integers(0, 9))


def _do(peer: Peer, deed: tuple[str, int], calls: list[_Counted]) -> None:
    what, which = deed
    if what in ("begin", "stream"):
        call = _Counted(b"x" * 10_000 * which, what == "stream")
        calls.append(call)
        peer.connection.open(call)
    elif which < len(calls):
        if what == "cancel":
            peer.connection.cancel(calls[which])
            calls[which].end(RpcError("CANCELLED", "by us"))
        elif calls[which].goes_on:
            peer.connection.send(calls[which], b"y" * 10_000)


def _check(peer: Peer, calls: list[_Counted]) -> None:
    """End it, and see that each call has ended once and that whole frames were sent."""
    peer.heard()
    peer.connection.fail("the end")
    assert [call.ends for call in calls] == [1] * len(calls)
    assert peer.connection.idle


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_frames_or_malformed(data: bytes, size: int) -> None:
    peer = Peer()
    calls: list[_Counted] = []
    _do(peer, ("begin", 9), calls)
    try:
        for place in range(0, len(data), size):
            peer.says(data[place : place + size])
    except Malformed:
        pass
    _check(peer, calls)


@given(st.lists(_ANY | _SENSIBLE | _DEEDS, max_size=30))
def test_any_frames_are_heard_or_malformed(steps: list[bytes | tuple[str, int]]) -> None:
    peer = Peer()
    calls: list[_Counted] = []
    _do(peer, ("begin", 1), calls)
    try:
        for step in steps:
            if isinstance(step, bytes):
                peer.says(step)
            else:
                _do(peer, step, calls)
    except Malformed:
        pass
    _check(peer, calls)


@given(st.lists(_SENSIBLE | _DEEDS, max_size=40))
def test_no_more_is_under_way_than_was_allowed(steps: list[bytes | tuple[str, int]]) -> None:
    """Counted from what was said and sent, not from what the connection believes."""
    peer = Peer()
    calls: list[_Counted] = []
    room, each, calls_max = 65_535, 65_535, 2**31
    rooms: dict[int, int] = {}
    for step in steps:
        if isinstance(step, tuple):
            _do(peer, step, calls)
        else:
            peer.says(step)
            kind, number, payload = step[3], int.from_bytes(step[5:9], "big"), step[9:]
            if kind == 8 and number == 0:
                room += int.from_bytes(payload, "big")
            elif kind == 8 and number in rooms:
                rooms[number] += int.from_bytes(payload, "big")
            elif kind == 4 and payload[1] == INITIAL_WINDOW:
                change = int.from_bytes(payload[2:6], "big") - each
                rooms = {number: left + change for number, left in rooms.items()}
                each += change
            elif kind == 4:
                calls_max = int.from_bytes(payload[2:6], "big")
        for one in peer.heard():
            if one.kind == 1:
                rooms[one.number] = each
                assert len(peer.connection.calls) <= calls_max
            elif one.kind == 0:
                room -= len(one.payload)
                rooms[one.number] -= len(one.payload)
                assert room >= 0
                assert rooms[one.number] >= 0
    _check(peer, calls)
