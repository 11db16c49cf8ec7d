"""Many connections that each ask one thing after the other, from one process: the load.

It does no more than it must, so that it is the server that takes the time: bytes are sent as they
stand, and an answer is only looked at for its end and for what the next request needs.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import ClassVar, NamedTuple, TypeAlias

from bench.contestant import Session
from bench.lock_service import Placed

Turns: TypeAlias = Generator[bytes, bytes, None]
"""Yields requests, one for each answer that is sent to it: take, leave, take, leave, and so on."""

TIMEOUT_S = 30.0
HEAD_END = b"\r\n\r\n"


class Done(NamedTuple):
    """What a load has done."""

    pairs: int
    seconds: float


class Loaded(Placed):
    """A contestant that is put under load by many connections of its own protocol."""

    beside_server: ClassVar[bool] = False
    """Whether what drives it belongs on the core of its servers, as a part of what is measured."""

    def connect(self, *, traced: bool = False) -> Session:
        raise NotImplementedError

    @abstractmethod
    def turns(self, name: str) -> Turns:
        """What the connection says that takes and leaves this name."""

    def is_whole(self, answer: bytes) -> bool:
        """Whether all of an answer is there: here, one of HTTP."""
        return http_is_whole(answer)

    def load(self, connections: int, warm_s: float, seconds: float) -> Done:
        """Have so many connections take and leave a lock each, and count after the warm-up."""
        with selectors.DefaultSelector() as selector:
            lines = [_Line(self, name) for name in new_names(connections)]
            try:
                for line in lines:
                    selector.register(line.socket, selectors.EVENT_READ, line.go_on)
                    line.begin()
                _drive(selector, time.perf_counter() + warm_s)
                before, begun = sum(line.answers for line in lines), time.perf_counter()
                _drive(selector, begun + seconds)
                spent = time.perf_counter() - begun
                return Done((sum(line.answers for line in lines) - before) // 2, spent)
            finally:
                for line in lines:
                    line.socket.close()


class _Line:
    """One connection."""

    def __init__(self, contestant: Loaded, name: str) -> None:
        self.socket = socket.create_connection(contestant.address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = 0
        self._turns = contestant.turns(name)
        self._is_whole = contestant.is_whole
        self._read = b""

    def begin(self) -> None:
        self.socket.sendall(next(self._turns))

    def go_on(self) -> None:
        """Read, and ask the next if the answer is whole."""
        found = self.socket.recv(65_536)
        if not found:
            raise RuntimeError("the server closed a connection")
        self._read += found
        if self._is_whole(self._read):
            answer, self._read = self._read, b""
            self.answers += 1
            self.socket.sendall(self._turns.send(answer))


def new_names(count: int) -> list[str]:
    """Names that no load before had: its locks were held when it was cut off."""
    load = secrets.token_hex(8)
    return [f"load-{load}-{number}" for number in range(count)]


def _drive(selector: selectors.BaseSelector, until: float) -> None:
    while time.perf_counter() < until:
        ready = selector.select(TIMEOUT_S)
        if not ready:
            raise RuntimeError(f"the server said nothing for {TIMEOUT_S:g} s")
        for key, _ in ready:
            go_on: Callable[[], None] = key.data
            go_on()


def http_is_whole(answer: bytes) -> bool:
    """Whether an answer with a length is there to its end."""
    end = answer.find(HEAD_END)
    if end < 0:
        return False
    head = answer[:end].lower()
    at = head.find(b"content-length:")
    if at < 0:
        raise RuntimeError(f"an answer without a length: {answer!r}")
    length = int(head[at + 15 :].split(b"\r\n", 1)[0])
    return len(answer) >= end + len(HEAD_END) + length


def post(path: str, body: bytes) -> bytes:
    """A request of HTTP whose body is JSON."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)


def body_of(answer: bytes) -> bytes:
    """The body of an answer that was no refusal."""
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the server answered {answer!r}")
    return answer.partition(HEAD_END)[2]
