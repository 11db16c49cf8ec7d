"""The frames of HTTP/2 (RFC 9113, section 6): their numbers, and how one is written."""

from __future__ import annotations

from struct import Struct

from .hpack import Malformed

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE = 0, 1, 3, 4, 5
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4  # settings of the server
REFUSED_STREAM, CANCEL = 7, 8  # reasons of a reset
FRAME_MAX, BLOCK_MAX = 16_384, 65_536
INT31_MAX = 2**31 - 1  # the largest window, and the last number of a call
WINDOW_FIRST, WINDOW_LOW = 65_535, 2**30

# A server in Go sends a ping with each answer, to learn how fast the connection is, unless the last
# one is still to be answered. Answering that at once would cost each call a second read and write.
PONG_S = 0.1
SILENCE_S, DEATH_S = 10.0, 3.0  # when to send a ping of ours, and when to give up; etcd allows 5 s

FRAME_HEADER = Struct(">BHBBI")  # size in two parts, kind, flags, number of the call
_REASONS = ("no error", "protocol error", "internal error", "flow control error")


def frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    """One frame as it travels."""
    size = len(payload)
    return FRAME_HEADER.pack(size >> 16, size & 0xFFFF, kind, flags, number) + payload


def _setting(key: int, value: int) -> bytes:
    return key.to_bytes(2, "big") + value.to_bytes(4, "big")


PING_OUT = frame(PING, 0, 0, b"fencelck")
PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    # No table of headers, no pushes, as much as the server likes.
    + frame(
        SETTINGS,
        0,
        0,
        _setting(1, 0) + _setting(2, 0) + _setting(INITIAL_WINDOW_SIZE, INT31_MAX),
    )
    + frame(WINDOW_UPDATE, 0, 0, (INT31_MAX - WINDOW_FIRST).to_bytes(4, "big"))
)


def unpadded(flags: int, payload: bytes) -> bytes:
    """What a frame holds without what only makes it longer."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Malformed("a frame has more padding than content")
    return payload[1 : len(payload) - payload[0]]


def reason_of(number: int) -> str:
    """Why the server ended something."""
    return _REASONS[number] if number < len(_REASONS) else f"reason {number}"
