"""Set up TLS for HTTP/2; for threads, encrypt and decrypt apart from the socket.

A socket of Python's own TLS cannot be read by one thread while another writes. Here the thread that
has the connection's mutex encrypts and decrypts, and the socket below stays a plain one that may be
read and written at once.
"""

from __future__ import annotations

import socket
import ssl

from ..tcp import limit
from ..tls import Tls
from ..tls import context_of as make_context

READ_MAX = 65_536


def context_of(tls: Tls) -> ssl.SSLContext:
    """Make a TLS context that offers HTTP/2."""
    return make_context(tls, "h2")


def see_agreed(tls: ssl.SSLObject) -> None:
    """Raise ConnectionError unless the server has agreed to HTTP/2."""
    if tls.selected_alpn_protocol() != "h2":
        raise ConnectionError("the server does not offer HTTP/2 over TLS")


class TlsLayer:
    """TLS over a socket that its owner reads and writes."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self.is_over = False
        """Whether the server has announced that nothing more will come."""

    def handshake(self, sock: socket.socket, deadline: float) -> None:
        """Do the handshake over a socket, by the deadline; raises OSError."""
        while True:
            limit(sock, deadline)
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(self._out.read())
                data = sock.recv(READ_MAX)
                if not data:
                    raise ConnectionResetError("the server hung up on TLS") from None
                self._in.write(data)
            except ssl.SSLError:
                sock.sendall(self._out.read())  # an alert that says what is wrong
                raise
        sock.sendall(self._out.read())
        see_agreed(self._tls)

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt received bytes; ``answer`` may then have something to send."""
        self._in.write(data)
        parts: list[bytes] = []
        try:
            while part := self._tls.read(READ_MAX):
                parts.append(part)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        return b"".join(parts)

    def answer(self) -> bytes:
        """Return the bytes that TLS itself has to send."""
        return self._out.read()
