"""One connection through the proxy: two directions, and the bytes that are on their way in each."""

from __future__ import annotations

import socket
import struct
import time
from collections import deque

TO_SERVER = "to the server"
TO_CLIENT = "to the client"

SLOW_READER_S = 0.001
REMEMBERED = 1 << 20  # bytes of a request, to find words in it


class Flow:
    """One direction of one connection: bytes on their way."""

    def __init__(self, way: str, source: socket.socket, target: socket.socket) -> None:
        self.way = way
        self.source = source
        self.target = target
        self.ended = False
        self.finished = False
        self._bytes: deque[tuple[float, bytes]] = deque()

    @property
    def waiting(self) -> int:
        return sum(len(data) for _, data in self._bytes)

    @property
    def due(self) -> float:
        return self._bytes[0][0]

    def take(self, data: bytes, delay: float) -> None:
        self._bytes.append((time.monotonic() + delay, data))

    def give(self, now: float) -> None:
        """Send on what may go by now."""
        while self._bytes and self.due <= now:
            due, data = self._bytes.popleft()
            try:
                sent = self.target.send(data)
            except BlockingIOError:
                sent = 0
            if sent < len(data):  # the other side reads slowly: a moment later again
                self._bytes.appendleft((max(due, now + SLOW_READER_S), data[sent:]))
                return
        if self.ended and not self._bytes and not self.finished:
            self.finished = True
            self.target.shutdown(socket.SHUT_WR)


class ProxyConnection:
    """One connection of a client, and ours to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.flows = (Flow(TO_SERVER, client, server), Flow(TO_CLIENT, server, client))
        self.request = b""
        """What the client has sent since the last answer."""
        self.answered = True
        self.silent = False
        """Whether nothing is passed on to the client any more."""
        self.gone = False

    def begins_request(self, data: bytes) -> bool:
        """Remember what the client sends, and tell whether a new request begins with it."""
        begins = self.answered
        self.answered = False
        self.request = (b"" if begins else self.request[:REMEMBERED]) + data
        return begins

    def abort(self) -> None:
        """Close both ends with a reset."""
        self.gone = True
        for flow in self.flows:
            abort(flow.source)


def abort(end: socket.socket) -> None:
    """Close with a reset, as a firewall or a dying machine does, and not in good order."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()
