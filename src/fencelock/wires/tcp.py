"""Open TCP connections for threads, within one deadline whatever a host name resolves to.

``socket.create_connection`` gives each address of a host the whole timeout: four that are silent
take four times as long. Here they share what is left: no address can use up the time of those that
follow, and one that refuses leaves its share to them. Deadlines are moments of ``monotonic()``.
"""

from __future__ import annotations

import socket
from time import monotonic


def connect(host: str, port: int, deadline: float) -> socket.socket:
    """Connect to the first address of a host that answers; OSError says why none did.

    The timeout of the socket is what was left for its address: see ``limit``.
    """
    found = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    errors: list[OSError] = []
    for number, (family, kind, protocol, _, address) in enumerate(found):
        sock = None
        try:
            sock = socket.socket(family, kind, protocol)
            sock.settimeout(_left(deadline) / (len(found) - number))
            sock.connect(address)
            return sock
        except BaseException as error:
            if sock is not None:
                sock.close()
            if not isinstance(error, OSError):
                raise
            errors.append(error)
    try:
        raise errors[-1] if errors else OSError(f"{host} has no address")
    finally:
        errors.clear()  # a traceback has this frame: a cycle would keep the errors alive


def limit(sock: socket.socket, deadline: float) -> None:
    """Have the next step of a socket end by the deadline; TimeoutError if that has passed."""
    sock.settimeout(_left(deadline))


def _left(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
