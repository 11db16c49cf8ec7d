"""Limit how long a blocking socket waits.

A timeout in the kernel costs one system call for each read or write, where Python's own costs two.

But a kernel timeout starts over with every signal that is handled, and a program whose timer ticks
would wait for ever. Where that must not happen, poll before the read.
"""

from __future__ import annotations

import select
import socket
import struct
import sys

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
