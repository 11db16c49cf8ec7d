"""The protocol of Redis over a plain socket: for tests that look at a server without its driver."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

ANSWER_S = 30.0


class ReplyError(Exception):
    """The server answered with an error."""


class Line:
    """One connection; a command at a time."""

    def __init__(self, port: int, host: str = "127.0.0.1", within: float = ANSWER_S) -> None:
        self._socket = socket.create_connection((host, port), timeout=within)
        self._answers = self._socket.makefile("rb")

    def ask(self, *words: object) -> Any:
        """Send a command and return its reply; bytes become text, an error is raised."""
        self.send(*words)
        return self.read()

    def send(self, *words: object) -> None:
        """Send a command only."""
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        packed = [b"*%d\r\n" % len(parts)]
        packed += [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
        self._socket.sendall(b"".join(packed))

    def read(self) -> Any:
        """The next reply, or the next push of a subscription."""
        head = self._answers.readline()
        if not head.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = head[:1], head[1:-2]
        if kind == b"-":
            raise ReplyError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self._element() for _ in range(int(rest))]
        assert kind == b"+", f"not a reply: {head!r}"
        return rest.decode()

    def _bulk(self, length: int) -> str:
        data = self._answers.read(length + 2)
        if len(data) != length + 2:
            raise ConnectionError("the server closed the connection")
        return data[:-2].decode(errors="surrogateescape")

    def _element(self) -> Any:
        """One element of a list, where an error is a value like others."""
        try:
            return self.read()
        except ReplyError as error:
            return error

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
