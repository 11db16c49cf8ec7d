"""Calls that end because the server or we want no more of them, and what may be sent again.

``unsent`` must be true only of what the server cannot have acted on.
"""

from __future__ import annotations

import pytest

from fencelock.wires.grpc.connection import Call, prefixed
from fencelock.wires.grpc.status import RpcError
from tests.wires.grpc.peer import (
    CALLS_MAX,
    CANCEL,
    DATA,
    END,
    HEADERS,
    REFUSED_STREAM,
    RESET,
    Frame,
    Peer,
    answer,
    begun,
    ended,
    farewell,
    frame,
    outcome,
    refusal,
    reset,
    settings,
)

CANCELLED = CANCEL.to_bytes(4, "big")
LAST = 2**31 - 1


def _numbers(peer: Peer) -> list[int]:
    """The calls that have begun since this was last asked."""
    return [frame.number for frame in peer.heard() if frame.kind == HEADERS]


@pytest.mark.parametrize(
    ("reason", "code", "unsent"),
    [
        (REFUSED_STREAM, "UNAVAILABLE", True),
        (CANCEL, "CANCELLED", False),
        (0, "UNAVAILABLE", False),
        (2, "UNAVAILABLE", False),
        (11, "UNAVAILABLE", False),
    ],
)
def test_only_a_refused_call_is_unsent(reason: int, code: str, unsent: bool) -> None:
    peer = Peer()
    first, second = peer.begin(), peer.begin()
    peer.heard()
    peer.says(reset(1, reason))
    assert refusal(first)[::2] == (code, unsent)
    assert (outcome(second), peer.heard()) == (None, [])


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_reset_is_not_answered_by_another(goes_on: bool) -> None:
    """Even if a part of the request, or of the stream, has not been sent."""
    peer = Peer()
    call = peer.begin(b"x" * 100_000, goes_on)
    peer.heard()
    peer.says(reset(1, 2))
    assert (call.done, peer.heard()) == (True, [])


def test_a_farewell_ends_what_the_server_did_not_begin() -> None:
    peer = Peer((CALLS_MAX, 3))
    calls = [peer.begin() for _ in range(5)]
    peer.heard()
    peer.says(farewell(3, 2, b"too many pings"))
    assert [call.done for call in calls] == [False, False, True, True, True]
    for call in calls[2:]:  # one that was sent, and two that waited
        code, said, unsent = refusal(call)
        assert (code, unsent) == ("UNAVAILABLE", True)
        assert "too many pings" in said
    peer.says(answer(1, b"one"), answer(3, b"three"), answer(5, b"five"))
    assert [outcome(call) for call in calls[:2]] == [b"one", b"three"]
    assert (peer.connection.idle, peer.heard()) == (True, [])


def test_after_a_farewell_no_call_begins() -> None:
    peer = Peer((CALLS_MAX, 1))
    first = peer.begin()
    peer.says(farewell(LAST))
    assert not first.done
    peer.heard()
    late = peer.begin()
    assert refusal(late)[::2] == ("UNAVAILABLE", True)
    peer.says(settings((CALLS_MAX, 10)), answer(1, b"one"))
    assert outcome(first) == b"one"
    assert _numbers(peer) == []


def test_a_second_farewell_may_name_an_earlier_call() -> None:
    peer = Peer()
    calls = [peer.begin() for _ in range(3)]
    peer.says(farewell(LAST))
    assert [call.done for call in calls] == [False, False, False]
    peer.says(farewell(1))
    assert [call.done for call in calls] == [False, True, True]
    assert [refusal(call)[2] for call in calls[1:]] == [True, True]


def test_a_connection_that_breaks_ends_all_calls() -> None:
    """A request that was not sent whole was not served; others may have been."""
    peer = Peer((CALLS_MAX, 3))
    sent, half, part = peer.begin(), peer.begin(b"x" * 100_000), peer.begin()
    waiting = peer.begin()
    answered = Call(b"", b"")
    peer.connection.cancel(answered)  # it never began
    peer.says(begun(1), frame(DATA, 0, 1, b"\0\0"))
    peer.connection.fail("cut")
    assert refusal(sent) == ("UNAVAILABLE", "cut", False)
    assert refusal(half) == ("UNAVAILABLE", "cut", True)
    assert refusal(part) == ("UNAVAILABLE", "cut", True)  # no room was left for it
    assert refusal(waiting) == ("UNAVAILABLE", "cut", True)
    assert peer.connection.idle
    late = peer.begin()
    assert refusal(late) == ("UNAVAILABLE", "cut", True)


def test_a_stream_that_breaks_may_have_been_heard() -> None:
    """What waits to be sent is not all that it said."""
    peer = Peer()
    stream = peer.begin(b"first", goes_on=True)
    peer.connection.send(stream, b"x" * 100_000)
    peer.connection.fail("cut")
    assert refusal(stream)[2] is False


@pytest.mark.parametrize("how", ["answer", "refusal", "reset", "cancel"])
def test_a_call_waits_until_the_server_has_room(how: str) -> None:
    peer = Peer((CALLS_MAX, 1))
    first, second, third = peer.begin(), peer.begin(b"second"), peer.begin()
    assert _numbers(peer) == [1]
    if how == "answer":
        peer.says(answer(1, b"one"))
    elif how == "refusal":
        peer.says(ended(1, [(":status", "200"), ("grpc-status", "5")]))
    elif how == "reset":
        peer.says(reset(1, REFUSED_STREAM))
    else:
        peer.connection.cancel(first)
    sent = peer.heard()
    if how == "cancel":
        assert sent.pop(0) == Frame(RESET, 0, 1, CANCELLED)
    assert [(frame.kind, frame.number) for frame in sent] == [(HEADERS, 3), (DATA, 3)]
    assert sent[1] == Frame(DATA, END, 3, prefixed(b"second"))
    peer.says(answer(3, b"two"))
    assert (outcome(second), outcome(third), _numbers(peer)) == (b"two", None, [5])


def test_a_call_that_waits_can_be_cancelled() -> None:
    peer = Peer((CALLS_MAX, 1))
    peer.begin()
    second, third = peer.begin(), peer.begin()
    peer.heard()
    peer.connection.cancel(second)
    assert peer.heard() == []
    peer.says(answer(1, b"one"), answer(3, b"three"))
    assert (outcome(third), second.done, peer.connection.idle) == (b"three", False, True)


def test_a_server_may_take_more_calls_later_or_none_for_a_while() -> None:
    peer = Peer((CALLS_MAX, 0))
    calls = [peer.begin() for _ in range(4)]
    assert _numbers(peer) == []
    peer.says(settings((CALLS_MAX, 3)))
    assert _numbers(peer) == [1, 3, 5]
    peer.says(settings((CALLS_MAX, 1)), answer(1, b"1"), answer(3, b"3"))
    assert _numbers(peer) == []
    peer.says(answer(5, b"5"), answer(7, b"7"))
    assert [outcome(call) for call in calls] == [b"1", b"3", b"5", b"7"]


def test_what_the_server_says_of_a_cancelled_call_is_not_heard() -> None:
    peer = Peer()
    call = peer.begin()
    peer.heard()
    peer.connection.cancel(call)
    assert peer.heard() == [Frame(RESET, 0, 1, CANCELLED)]
    peer.connection.cancel(call)
    peer.says(answer(1, b"late"), reset(1, CANCEL))
    assert (call.done, call.answer, peer.heard()) == (False, None, [])


def test_a_call_may_be_cancelled_while_its_last_message_is_heard() -> None:
    peer = Peer()

    class Once(Call):
        def on_message(self, message: bytes) -> None:
            self.end(None)
            peer.connection.cancel(self)

    calls = [Once(b"", b"", goes_on=True) for _ in range(2)]
    for call in calls:
        peer.connection.open(call)
    peer.heard()
    peer.says(begun(1), frame(DATA, END, 1, prefixed(b"the only one")))
    peer.says(begun(3), frame(DATA, 0, 3, prefixed(b"the only one")), ended(3))
    assert peer.heard() == [Frame(RESET, 0, number, CANCELLED) for number in (1, 3)]
    assert peer.connection.idle


def test_only_the_first_end_of_a_call_counts() -> None:
    call = Call(b"", b"")
    call.on_message(b"answer")
    call.end(None)
    call.end(RpcError("UNAVAILABLE", "too late"))
    assert outcome(call) == b"answer"


def test_a_connection_ends_with_its_last_number() -> None:
    peer = Peer()
    peer.connection._next = LAST - 2
    first, last, beyond = peer.begin(), peer.begin(), peer.begin()
    assert (first.number, last.number) == (LAST - 2, LAST)
    assert refusal(beyond)[::2] == ("UNAVAILABLE", True)
    peer.says(answer(LAST, b"last"), answer(LAST - 2, b"first"))
    assert (outcome(first), outcome(last)) == (b"first", b"last")
