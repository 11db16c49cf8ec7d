"""The floor for Redlock: five bare sockets, bytes that are made once, one parallel round each way.

All five are waited for, as one has to who does not match late replies with their requests. No
fence, no renewal, no errors handled.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence

from bench.contestant import Lock, Session
from bench.contestants.raw_redis import SCRIPT, leave, packed, take
from bench.redlock_nodes import OnNodes


class RawRedlock(OnNodes):
    """Blocking."""

    name = "raw redlock"
    works = frozenset({"pair"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.ports)


class _Session(Session):
    def __init__(self, ports: Sequence[int]) -> None:
        self._sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports]
        for made in self._sockets:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.sendall(packed(b"SCRIPT", b"LOAD", SCRIPT))
            made.recv(4096)

    def lock(self, name: str) -> Lock:
        return _Lock(self._sockets, name.encode())

    def close(self) -> None:
        for made in self._sockets:
            made.close()


class _Lock(Lock):
    def __init__(self, sockets: Sequence[socket.socket], name: bytes) -> None:
        self._sends = [made.send for made in sockets]
        self._receives = {made.fileno(): made.recv for made in sockets}
        self._poll = select.poll()
        for made in sockets:
            self._poll.register(made, select.POLLIN)
        self._take, self._leave = take(name), leave(name)

    def acquire(self) -> int:
        self._round(self._take)
        return 0

    def release(self) -> None:
        self._round(self._leave)

    def _round(self, request: bytes) -> None:
        for send in self._sends:
            send(request)
        left = len(self._sends)
        while left:
            for number, _ in self._poll.poll():
                self._receives[number](64)
                left -= 1
