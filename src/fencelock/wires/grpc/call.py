"""Keep the state of one gRPC call: its headers, messages and how it ended. Nothing does I/O."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TypeAlias

from .hpack import Malformed, write_block

Metadata: TypeAlias = tuple[tuple[str, str], ...]

# fmt: off
CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on
_BY_NUMBER = {str(number): code for number, code in enumerate(CODES)}
# What an answer that is not gRPC's means, by its HTTP status. It comes from something in between.
BY_STATUS = {
    "400": "INTERNAL",
    "401": "UNAUTHENTICATED",
    "403": "PERMISSION_DENIED",
    "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE",
    "502": "UNAVAILABLE",
    "503": "UNAVAILABLE",
    "504": "UNAVAILABLE",
}

KEPT_MAX = 64


class RpcError(Exception):
    """A call that failed: the status code of gRPC and its message."""

    def __init__(self, code: str, details: str, unsent: bool = False, late: bool = False) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details
        self.unsent = unsent
        """Whether it is certain that the server did nothing about it."""
        self.late = late or code == "DEADLINE_EXCEEDED"
        """Whether the server was silent for as long as it was given."""


def cannot_connect(error: OSError) -> RpcError:
    """Make the error for a server that was not reached, or that TLS failed with."""
    late = isinstance(error, TimeoutError)
    why = "no answer in time" if late else error.strerror or str(error)
    return RpcError("UNAVAILABLE", f"cannot connect ({why})", unsent=True, late=late)


class HeaderCache:
    """Header blocks of requests to one server, each encoded once."""

    def __init__(self, authority: str, secure: bool) -> None:
        self._authority = authority
        self._scheme = "https" if secure else "http"
        self._made: dict[tuple[str, float | None, Metadata], bytes] = {}

    def block(self, method: str, within: float | None, about: Metadata) -> bytes:
        """Return a header block; ``within`` is the time after which the server may give up."""
        return self._made.get((method, within, about)) or self._make(method, within, about)

    def _make(self, method: str, within: float | None, about: Metadata) -> bytes:
        headers = [
            (":method", "POST"),
            (":scheme", self._scheme),
            (":path", method),
            (":authority", self._authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fencelock"),
        ]
        if within is not None:
            headers.append(("grpc-timeout", f"{max(1, ceil(within * 1000))}m"))
        if len(self._made) >= KEPT_MAX:
            self._made.clear()
        made = self._made[method, within, about] = write_block((*headers, *about))
        return made


def prefixed(message: bytes) -> bytes:
    """Encode a message with its length, not compressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Call:
    """One call with one answer; a call with more of them overrides ``on_message``."""

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
        """What the connection has not sent yet."""
        self.goes_on = goes_on
        """More messages may be sent."""
        self.number = 0
        self.window = 0
        """How many bytes the server would still take."""
        self.taken = 0
        """How many bytes have come since the server was last told to go on."""
        self.rest = b""
        self.answer: bytes | None = None
        self.refused: RpcError | None = None
        self.done = False

    def take(self, data: bytes) -> None:
        """Take received bytes of the answer: a message, a part of one, or several."""
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
        status = headers.get("grpc-status")
        if status == "0":
            self.end(None)
        elif status is not None:
            code = _BY_NUMBER.get(status, "UNKNOWN")
            self.end(RpcError(code, _unquoted(headers.get("grpc-message", ""))))
        else:
            http = headers.get(":status", "none")
            code = BY_STATUS.get(http, "UNKNOWN")
            self.end(RpcError(code, f"what answered is no gRPC server (HTTP status {http})"))

    def end(self, refused: RpcError | None) -> None:
        """End the call, well or not; only the first end counts."""
        if not self.done:
            self.refused = refused
            self.done = True
            self.on_end()

    def on_end(self) -> None:
        """Called once at the end; for subclasses."""

    def result(self) -> bytes:
        """Return the answer of a call that is over, or raise its error."""
        if self.refused is not None:
            raise self.refused
        if self.answer is None:
            raise RpcError("INTERNAL", "the server ended the call without an answer")
        return self.answer


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)
