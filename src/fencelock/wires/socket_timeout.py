"""Limit how long a blocking socket waits.

A timeout in the kernel costs one system call for each read or write, where Python's own costs two.

But a kernel timeout starts over with every signal that is handled, and a program whose timer ticks
would wait for ever. Where that must not happen, ``waiting_for`` polls before the read.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

READ, WRITE = 1, 4  # what select.poll calls POLLIN and POLLOUT, also where it does not exist
_IN_KERNEL = sys.platform != "win32"


def waits_in_kernel(sock: socket.socket) -> bool:
    """Return whether the kernel's timeouts can be used: TLS has waits of its own, and so have the
    green threads of eventlet, which removes ``select.poll``."""
    return _IN_KERNEL and type(sock) is socket.socket and hasattr(select, "poll")


def set_timeout(sock: socket.socket, seconds: float) -> None:
    """Have each read and write time out, with a BlockingIOError or a TimeoutError."""
    if not waits_in_kernel(sock):
        sock.settimeout(seconds)
        return
    sock.setblocking(True)
    limit = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def waiting_for(sock: socket.socket) -> Callable[[float], bool]:
    """Return a function, for one thread at a time, that waits so many seconds for something to
    read, whatever signals come meanwhile."""
    if not waits_in_kernel(sock):
        return lambda seconds: True  # the read itself waits, with Python's own timeout
    poll = poller()
    poll.register(sock.fileno(), READ)
    return lambda seconds: bool(poll.poll(max(0.0, seconds) * 1000))


class _Select:
    """``select.poll`` made of ``select.select``."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, number: int, events: int) -> None:
        self._wanted[number] = events

    modify = register

    def unregister(self, number: int) -> None:
        del self._wanted[number]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        """Wait for any of the files; one that was closed meanwhile is not reported."""
        reads = [number for number, events in self._wanted.items() if events & READ]
        writes = [number for number, events in self._wanted.items() if events & WRITE]
        found: dict[int, int] = {}
        ready = select.select(reads, writes, [], max(0.0, milliseconds) / 1000)
        for numbers, event in ((ready[0], READ), (ready[1], WRITE)):
            for number in numbers:
                found[number] = found.get(number, 0) | event
        return list(found.items())


def poller() -> Any:
    """Make a poll object for several files: ``select.poll`` where it exists."""
    return select.poll() if hasattr(select, "poll") else _Select()
