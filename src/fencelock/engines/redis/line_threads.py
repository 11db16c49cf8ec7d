"""The way to one node in a blocking program: a socket that never blocks, and how many are watched.

Any thread may send on it while another waits for whichever node answers first.
"""

from __future__ import annotations

import select
import socket
import threading
from math import ceil
from typing import Any

import hiredis

from ...wires import socket_timeout
from .round import Line
from .settings import Node


class _Poll:
    """Where there is no epoll, which also works for a process that has used up its descriptors."""

    def __init__(self) -> None:
        poll = socket_timeout.poller()
        self.register, self.unregister, self.modify = poll.register, poll.unregister, poll.modify
        self._poll = poll.poll

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        ready: list[tuple[int, int]] = self._poll(ceil(seconds * 1000))
        return ready

    def close(self) -> None:
        """Nothing to let go of."""


def poller() -> Any:
    """Watches the sockets of all nodes."""
    return select.epoll() if hasattr(select, "epoll") else _Poll()


class Alarm:
    """Wakes one thread that waits, now or the next time it does.

    An Event is a Condition written in Python: an exception of a signal handler can leave the lock
    inside it taken for ever, and whoever sets it would hang.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # it is set already

    def wait(self, seconds: float) -> None:
        self._lock.acquire(timeout=seconds)


class ThreadsLine(Line):
    """The way to one node, by a socket that never blocks."""

    def __init__(self, place: int, node: Node) -> None:
        super().__init__(place, node)
        self.connection: Any = None
        self.socket: Any = None
        self.number = -1
        self.out = b""
        """What the socket did not take yet."""

    def attach(self, connection: Any) -> None:
        self.connection = connection
        self.socket = connection._sock
        self.socket.setblocking(False)
        self.number = self.socket.fileno()
        self.send, self.receive = self.socket.send, self.socket.recv
        self.secure = type(self.socket) is not socket.socket
        reader = hiredis.Reader()
        self.gets, self.feed = reader.gets, reader.feed
        self.out = b""
