"""The other side of a connection, played by the test: it reads our frames and writes its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fencelock.wires.grpc.connection import Call, Connection, prefixed
from fencelock.wires.grpc.hpack import read_block, write_block
from fencelock.wires.grpc.status import RpcError

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, MORE = range(10)
END, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
CALLS_MAX, INITIAL_WINDOW, FRAME_SIZE = 3, 4, 5
REFUSED_STREAM, CANCEL = 7, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OK = (("grpc-status", "0"),)


class Frame(NamedTuple):
    """One frame that we sent."""

    kind: int
    flags: int
    number: int
    payload: bytes

    @property
    def headers(self) -> dict[str, str]:
        return read_block(self.payload)


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """Written apart from the library, which has its own."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + number.to_bytes(4, "big")
    return head + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    payload = b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in pairs)
    return frame(SETTINGS, 0, 0, payload)


def window(number: int, more: int) -> bytes:
    return frame(WINDOW, 0, number, more.to_bytes(4, "big"))


def reset(number: int, reason: int) -> bytes:
    return frame(RESET, 0, number, reason.to_bytes(4, "big"))


def farewell(last: int, reason: int = 0, said: bytes = b"") -> bytes:
    return frame(GOAWAY, 0, 0, last.to_bytes(4, "big") + reason.to_bytes(4, "big") + said)


def headers(number: int, pairs: Iterable[tuple[str, str]] = (), flags: int = END_HEADERS) -> bytes:
    """The first headers of an answer, or those that end it."""
    return frame(HEADERS, flags, number, write_block(pairs))


def begun(number: int) -> bytes:
    return headers(number, [(":status", "200"), ("content-type", "application/grpc")])


def ended(number: int, pairs: Iterable[tuple[str, str]] = OK) -> bytes:
    return headers(number, pairs, END | END_HEADERS)


def refused(number: int, code: int, said: str = "") -> bytes:
    """An answer that is nothing but an error."""
    more = [("grpc-status", str(code)), ("grpc-message", said)]
    return headers(number, [(":status", "200"), *more], END | END_HEADERS)


def answer(number: int, message: bytes) -> bytes:
    """A whole answer, in frames of an allowed size."""
    body = prefixed(message)
    parts = [body[place : place + 16_384] for place in range(0, len(body), 16_384)]
    data = b"".join(frame(DATA, 0, number, part) for part in parts)
    return begun(number) + data + ended(number)


def read_frames(data: bytes) -> list[Frame]:
    """Whole frames; the preface of a connection is left out."""
    data = data.removeprefix(PREFACE)
    found: list[Frame] = []
    while data:
        size = int.from_bytes(data[:3], "big")
        assert len(data) >= 9 + size, "half a frame was sent"
        found.append(Frame(data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
        data = data[9 + size :]
    return found


class Peer:
    """A connection, and what it has sent to this peer."""

    def __init__(self, *pairs: tuple[int, int]) -> None:
        """What is given are the settings of the server, with which it greets."""
        self.connection = Connection()
        self.greeting = self.heard()
        self.says(settings(*pairs))
        self.heard()

    def heard(self) -> list[Frame]:
        """What was sent since this was last asked."""
        data = b"".join(self.connection.out + self.connection.pongs)
        self.connection.out.clear()
        self.connection.pongs.clear()
        return read_frames(data)

    def says(self, *frames: bytes) -> None:
        self.connection.feed(b"".join(frames))

    def begin(self, message: bytes = b"question", goes_on: bool = False) -> Call:
        call = Call(write_block([(":path", "/a/b")]), message, goes_on)
        self.connection.open(call)
        return call


def outcome(call: Call) -> bytes | RpcError | None:
    """What became of a call; None if it is still under way."""
    if not call.done:
        return None
    try:
        return call.result()
    except RpcError as error:
        return error


def refusal(call: Call) -> tuple[str, str, bool]:
    """Code, words and whether the server did nothing, of a call that did not end well."""
    error = outcome(call)
    assert isinstance(error, RpcError), error
    return error.code, error.details, error.unsent
