"""Limit how long a blocking socket waits.

A limit in the kernel costs one system call for each read or write, where Python's own costs two.

But such a limit begins anew with every signal that a handler takes, and a program whose timer ticks
would wait for ever. Where that must not be, ``waiting_for`` polls before the read.
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
    """Whether the kernel's limits serve: TLS and the green threads of eventlet, which take poll
    away, have waits of their own."""
    return _IN_KERNEL and type(sock) is socket.socket and hasattr(select, "poll")


def set_timeout(sock: socket.socket, seconds: float) -> None:
    """Have each read and write end after so long, by a BlockingIOError or a TimeoutError."""
    if not waits_in_kernel(sock):
        sock.settimeout(seconds)
        return
    sock.setblocking(True)
    limit = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def waiting_for(sock: socket.socket) -> Callable[[float], bool]:
    """A function for one thread at a time: wait so long for something to read, whatever signals
    come meanwhile."""
    if not waits_in_kernel(sock):
        return lambda seconds: True  # reading itself waits, by Python's own limit
    poll = poller()
    poll.register(sock.fileno(), READ)
    return lambda seconds: bool(poll.poll(max(0.0, seconds) * 1000))


class _Select:
    """What ``select.poll`` does, by ``select.select``."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, number: int, events: int) -> None:
        self._wanted[number] = events

    modify = register

    def unregister(self, number: int) -> None:
        del self._wanted[number]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        """Wait so long for any of them; a file that was closed meanwhile is not reported."""
        reads = [number for number, events in self._wanted.items() if events & READ]
        writes = [number for number, events in self._wanted.items() if events & WRITE]
        found: dict[int, int] = {}
        ready = select.select(reads, writes, [], max(0.0, milliseconds) / 1000)
        for numbers, event in ((ready[0], READ), (ready[1], WRITE)):
            for number in numbers:
                found[number] = found.get(number, 0) | event
        return list(found.items())


def poller() -> Any:
    """Watches several files: ``select.poll`` where there is one."""
    return select.poll() if hasattr(select, "poll") else _Select()
