"""Keep the state of one HTTP/2 connection (RFC 9113), the client's side, without I/O.

Its owner sends what is in ``out`` and feeds what it receives. The server gets the largest windows,
because replies are read whole anyway; what we send keeps to the server's windows and limits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import TypeAlias

from .hpack import Malformed, read_block
from .status import RpcError, refusal

OnMessage: TypeAlias = Callable[[bytes], None]  # called with each message of a stream
OnEnd: TypeAlias = Callable[[], None]  # called once when the stream has ended, however

# Frames (RFC 9113, section 6): their types, flags, settings and error codes.
DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE = 0, 1, 3, 4, 5
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4  # settings of the server
REFUSED_STREAM, CANCEL = 7, 8  # reasons of a reset
FRAME_MAX, BLOCK_MAX = 16_384, 65_536
INT31_MAX = 2**31 - 1  # the largest window, and the last stream identifier
WINDOW_FIRST, WINDOW_LOW = 65_535, 2**30

# A server in Go sends a ping with each reply, to learn how fast the connection is, unless the last
# ping is unanswered. Answering that at once would cost each call a second read and write.
PONG_S = 0.1
SILENCE_S, DEATH_S = 10.0, 3.0  # when to send a ping of ours, and when to give up; etcd allows 5 s

FRAME_HEADER = Struct(">BHBBI")  # length in two parts, type, flags, stream identifier
_REASONS = ("no error", "protocol error", "internal error", "flow control error")


def frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    """Encode one frame."""
    size = len(payload)
    return FRAME_HEADER.pack(size >> 16, size & 0xFFFF, kind, flags, number) + payload


def _setting(key: int, value: int) -> bytes:
    return key.to_bytes(2, "big") + value.to_bytes(4, "big")


PING_OUT = frame(PING, 0, 0, b"fencelck")
PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    # No dynamic table, no server push, the largest windows.
    + frame(
        SETTINGS,
        0,
        0,
        _setting(1, 0) + _setting(2, 0) + _setting(INITIAL_WINDOW_SIZE, INT31_MAX),
    )
    + frame(WINDOW_UPDATE, 0, 0, (INT31_MAX - WINDOW_FIRST).to_bytes(4, "big"))
)


def unpadded(flags: int, payload: bytes) -> bytes:
    """Return the payload of a frame without its padding."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Malformed("a frame has more padding than content")
    return payload[1 : len(payload) - payload[0]]


def reason_of(number: int) -> str:
    """Name an error code of HTTP/2."""
    return _REASONS[number] if number < len(_REASONS) else f"reason {number}"


def prefixed(message: bytes) -> bytes:
    """Encode a gRPC message with its length, not compressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Call:
    """One call with one reply; a call with more of them overrides ``on_message``."""

    __slots__ = (
        "answer",
        "body",
        "done",
        "goes_on",
        "head",
        "number",
        "refused",
        "rest",
        "taken",
        "window",
    )

    def __init__(self, head: bytes, message: bytes | None, goes_on: bool = False) -> None:
        self.head = head
        self.body = b"" if message is None else prefixed(message)
        """Bytes that the connection has not sent yet."""
        self.goes_on = goes_on
        """Whether more messages may be sent."""
        self.number = 0
        """The stream identifier; 0 until it is sent."""
        self.window = 0
        """How many bytes the server's window for this stream still allows."""
        self.taken = 0
        """How many bytes have come since the last WINDOW_UPDATE for this stream."""
        self.rest = b""
        self.answer: bytes | None = None
        self.refused: RpcError | None = None
        self.done = False

    def take(self, data: bytes) -> None:
        """Take received bytes of the reply: a message, a part of one, or several."""
        if self.rest:
            data = self.rest + data
        while len(data) >= 5:
            end = 5 + int.from_bytes(data[1:5], "big")
            if data[0]:
                raise Malformed("a message is compressed, which was not asked for")
            if len(data) < end:
                break
            self.on_message(data[5:end])
            data = data[end:]
        self.rest = data

    def on_message(self, message: bytes) -> None:
        """Take a received message."""
        self.answer = message

    def conclude(self, headers: Mapping[str, str]) -> None:
        """End the call as its trailers say."""
        ended_well = headers.get("grpc-status") == "0"
        self.end(None if ended_well else refusal(headers))

    def end(self, refused: RpcError | None) -> None:
        """End the call, well or not; only the first end counts."""
        if not self.done:
            self.refused = refused
            self.done = True
            self.on_end()

    def on_end(self) -> None:
        """Called once at the end; for subclasses."""

    def result(self) -> bytes:
        """Return the reply of a call that has ended, or raise its error."""
        if self.refused is not None:
            raise self.refused
        if self.answer is None:
            raise RpcError("INTERNAL", "the server ended the call without an answer")
        return self.answer


class Connection:
    """All calls of one connection."""

    def __init__(self) -> None:
        self.out: list[bytes] = [PREFACE]
        """Bytes to send."""
        self.pongs: list[bytes] = []
        """Answers to pings, to be sent too, in a while: see ``PONG_S``."""
        self.calls: dict[int, Call] = {}
        """The calls under way, by stream identifier."""
        self.leaving = ""
        """Why no more calls may begin, if so."""
        self._queue: deque[Call] = deque()
        """Calls beyond the server's MAX_CONCURRENT_STREAMS."""
        self._next = 1
        self._rest = b""
        self._calls_max = INT31_MAX
        self._window, self._window_each = WINDOW_FIRST, WINDOW_FIRST
        self._taken = 0
        self._block: tuple[int, int, bytes] | None = None
        """Headers that go on in the next frame: stream identifier, flags, bytes so far."""

    @property
    def idle(self) -> bool:
        return not self.calls and not self._queue

    def under_way(self) -> list[Call]:
        """List all calls that have not ended."""
        return [*self.calls.values(), *self._queue]

    def open(self, call: Call) -> None:
        """Begin a call."""
        if self.leaving:
            call.end(RpcError("UNAVAILABLE", self.leaving, unsent=True))
            return
        if len(self.calls) >= self._calls_max:
            self._queue.append(call)
            return
        number = call.number = self._next
        self._next = number + 2
        if self._next > INT31_MAX:
            self.leaving = "the connection has used all its stream identifiers"
        self.calls[number] = call
        head, body = call.head, call.body
        call.window = self._window_each
        self.out.append(FRAME_HEADER.pack(0, len(head), HEADERS, END_HEADERS, number))
        self.out.append(head)
        if len(body) <= min(FRAME_MAX, self._window, call.window) and not call.goes_on:
            self._window -= len(body)  # nearly always: it fits
            self.out.append(FRAME_HEADER.pack(0, len(body), DATA, END_STREAM, number))
            self.out.append(body)
            call.body = b""
        else:
            self._pump(call)

    def send(self, call: Call, message: bytes) -> None:
        """Send one more message of a call that goes on."""
        if not call.done:
            call.body += prefixed(message)
            if call.number:
                self._pump(call)

    def cancel(self, call: Call) -> None:
        """Cancel a call. Frames that the server still sends of it are dropped."""
        if self.calls.pop(call.number, None) is not None:
            self.out.append(frame(RST_STREAM, 0, call.number, CANCEL.to_bytes(4, "big")))
            self._begin_others()
        elif not call.number and call in self._queue:
            self._queue.remove(call)

    def fail(self, why: str) -> None:
        """End all calls: the connection has ended."""
        self.leaving = self.leaving or why
        for call in self.under_way():  # the server acts on a request only once it has all of it
            unsent = not call.number or (bool(call.body) and not call.goes_on)
            call.end(RpcError("UNAVAILABLE", why, unsent))
        self.calls.clear()  # last: if this is interrupted, the next call ends the others
        self._queue.clear()

    def feed(self, data: bytes) -> None:
        """Take received bytes. Malformed means that the connection must be ended."""
        if self._rest:
            data = self._rest + data
        offset, end = 0, len(data)
        while end - offset >= 9:
            high, low, kind, flags, number = FRAME_HEADER.unpack_from(data, offset)
            start = offset + 9
            offset = start + low
            if high or low > FRAME_MAX:
                raise Malformed("a frame is larger than allowed: this is no HTTP/2 server")
            if offset > end:
                offset = start - 9
                break
            self._on_frame(kind, flags, number & INT31_MAX, data[start:offset])
        self._rest = data[offset:]

    def _on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and (kind != CONTINUATION or number != self._block[0]):
            raise Malformed("headers were broken off")
        if kind == DATA:
            self._on_data(flags, number, payload)
        elif kind == HEADERS:
            payload = unpadded(flags, payload)
            if flags & PRIORITY:
                payload = payload[5:]
            self._on_headers(flags, number, payload)
        elif kind == CONTINUATION:
            if self._block is None:
                raise Malformed("headers go on that have not begun")
            _, flags_before, block = self._block
            self._on_headers(
                flags_before & END_STREAM | flags & END_HEADERS, number, block + payload
            )
        elif kind == PING:
            if not flags & ACK:
                self.pongs.append(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            self._on_window_update(number, int.from_bytes(payload, "big") & INT31_MAX)
        elif kind == SETTINGS:
            self._on_settings(flags, payload)
        elif kind == RST_STREAM:
            self._on_reset(number, int.from_bytes(payload, "big"))
        elif kind == GOAWAY:
            self._on_goaway(payload)
        elif kind == PUSH_PROMISE:
            raise Malformed("the server pushes, which it was asked not to")

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        call, size = self.calls.get(number), len(payload)
        self._taken += size
        if self._taken >= WINDOW_LOW:
            self.out.append(frame(WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4, "big")))
            self._taken = 0
        if call is None:
            return
        call.taken += size
        if call.taken >= WINDOW_LOW:
            self.out.append(frame(WINDOW_UPDATE, 0, number, call.taken.to_bytes(4, "big")))
            call.taken = 0
        call.take(unpadded(flags, payload) if flags & PADDED else payload)
        if flags & END_STREAM:
            self._drop(call)
            call.end(RpcError("UNKNOWN", "the server ended the call without saying how"))

    def _on_headers(self, flags: int, number: int, block: bytes) -> None:
        if not flags & END_HEADERS:
            if len(block) > BLOCK_MAX:
                raise Malformed("headers are too long")
            self._block = (number, flags, block)
            return
        self._block = None
        call = self.calls.get(number)
        if call is None:
            return
        headers = read_block(block)
        if flags & END_STREAM:
            self._drop(call)
            call.conclude(headers)
        elif not headers.get(":status", "").startswith(("1", "200")):
            self.cancel(call)
            call.conclude(headers)

    def _on_reset(self, number: int, reason: int) -> None:
        call = self.calls.get(number)
        if call is not None:
            call.goes_on, call.body = False, b""  # nothing more must be sent
            self._drop(call)
            code = "CANCELLED" if reason == CANCEL else "UNAVAILABLE"
            details = f"the server ended the call ({reason_of(reason)})"
            call.end(RpcError(code, details, unsent=reason == REFUSED_STREAM))

    def _on_goaway(self, payload: bytes) -> None:
        """Begin no more calls, and end those after the last one that the server will act on."""
        last = int.from_bytes(payload[:4], "big") & INT31_MAX
        said = payload[8:200].decode("latin-1") or reason_of(int.from_bytes(payload[4:8], "big"))
        self.leaving = f"the server closes the connection ({said})"
        beyond = [call for number, call in self.calls.items() if number > last]
        for call in (*beyond, *self._queue):
            self.calls.pop(call.number, None)
            call.end(RpcError("UNAVAILABLE", self.leaving, unsent=True))
        self._queue.clear()

    def _on_settings(self, flags: int, payload: bytes) -> None:
        if flags & ACK:
            return
        for offset in range(0, len(payload) - 5, 6):
            key = int.from_bytes(payload[offset : offset + 2], "big")
            value = int.from_bytes(payload[offset + 2 : offset + 6], "big")
            if key == MAX_CONCURRENT_STREAMS:
                self._calls_max = value
            elif key == INITIAL_WINDOW_SIZE:
                for call in self.calls.values():
                    call.window += value - self._window_each
                self._window_each = value
        self.out.append(frame(SETTINGS, ACK, 0, b""))
        self._pump_all()
        self._begin_others()

    def _on_window_update(self, number: int, more: int) -> None:
        if not number:
            self._window += more
            if self._window - more < FRAME_MAX:
                self._pump_all()
        elif (call := self.calls.get(number)) is not None:
            call.window += more
            if call.body:
                self._pump(call)

    def _pump_all(self) -> None:
        for call in list(self.calls.values()):
            if call.body:
                self._pump(call)

    def _pump(self, call: Call) -> None:
        """Send as much of a call as the server's windows allow."""
        while call.body and (size := min(FRAME_MAX, self._window, call.window)) > 0:
            part, call.body = call.body[:size], call.body[size:]
            self._window -= len(part)
            call.window -= len(part)
            flags = 0 if call.body or call.goes_on else END_STREAM
            self.out.append(frame(DATA, flags, call.number, part))

    def _drop(self, call: Call) -> None:
        """Forget a call that the server has ended."""
        if self.calls.pop(call.number, None) is None:
            return  # its last message has cancelled it
        if call.goes_on or call.body:
            self.out.append(frame(RST_STREAM, 0, call.number, CANCEL.to_bytes(4, "big")))
        if self._queue:
            self._begin_others()

    def _begin_others(self) -> None:
        while self._queue and len(self.calls) < self._calls_max:
            self.open(self._queue.popleft())
