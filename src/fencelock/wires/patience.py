"""How long a blocking socket waits. A limit in the kernel costs one system call for each read or
write, where Python's own costs two."""

from __future__ import annotations

import socket
import struct
import sys

_IN_KERNEL = sys.platform != "win32"


def set_patience(link: socket.socket, seconds: float) -> None:
    """Have each read and write end after so long, by a BlockingIOError or a TimeoutError."""
    if not _IN_KERNEL or type(link) is not socket.socket:  # TLS has waits of its own
        link.settimeout(seconds)
        return
    link.setblocking(True)
    limit = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
