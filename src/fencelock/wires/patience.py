"""How long a blocking socket waits. A limit in the kernel costs one system call for each read or
write, where Python's own costs two.

But such a limit begins anew with every signal that a handler takes, and a program whose timer ticks
would wait for ever. Where that must not be, somebody waits for something to read first.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Callable

_IN_KERNEL = sys.platform != "win32"


def waits_in_kernel(link: socket.socket) -> bool:
    """Whether the kernel's limits serve: TLS and green threads have waits of their own."""
    return _IN_KERNEL and type(link) is socket.socket


def set_patience(link: socket.socket, seconds: float) -> None:
    """Have each read and write end after so long, by a BlockingIOError or a TimeoutError."""
    if not waits_in_kernel(link):
        link.settimeout(seconds)
        return
    link.setblocking(True)
    limit = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def waiting_for(link: socket.socket) -> Callable[[float], bool]:
    """A function for one thread at a time: wait so long for something to read, whatever signals
    come meanwhile."""
    if not waits_in_kernel(link):
        return lambda seconds: True  # reading itself waits, by Python's own limit
    poll = select.poll()
    poll.register(link, select.POLLIN)
    return lambda seconds: bool(poll.poll(max(0.0, seconds) * 1000))
