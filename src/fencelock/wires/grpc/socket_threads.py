"""Send and receive HTTP/2 frames over a blocking socket, with TLS if wanted.

One thread may read while others send. Which one reads is decided in ``client_threads.py``, for
calls, and in ``stream_threads.py``.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from time import monotonic

from ..socket_timeout import set_timeout, waiting_for
from .call import Call, cannot_connect
from .connection import PING_OUT, PONG_S, Connection
from .server import Server
from .tls import Seal

READ_MAX = 65_536
SEND_S = 1.0  # a server that takes no byte for so long, with all buffers full, has gone


class FrameSocket:
    """One connection of threads. All but reading is done under its mutex."""

    def __init__(self, server: Server, within: float) -> None:
        """Connect; RpcError says why not."""
        self.mutex = threading.Lock()
        self.frames = Connection()
        self.usable = True
        self._pong_at = 0.0
        self._seal: Seal | None = None
        try:
            self._socket = socket.create_connection((server.host, server.port), within)
        except OSError as error:
            raise cannot_connect(error) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if server.tls is not None:
                self._seal = Seal(server.tls, server.host)
                self._seal.shake_hands(self._socket)
            set_timeout(self._socket, min(within, SEND_S))
        except BaseException as error:
            self._socket.close()
            if isinstance(error, OSError):
                raise cannot_connect(error) from error
            raise
        self.receive = self._socket.recv
        self._wait = waiting_for(self._socket)

    def begin(self, call: Call) -> None:
        """Send a request, or the beginning of a stream."""
        self._do(self.frames.open, call)

    def send(self, call: Call, message: bytes) -> None:
        """Send one more message of a stream."""
        self._do(self.frames.send, call, message)

    def cancel(self, call: Call) -> None:
        """Cancel a call."""
        self._do(self.frames.cancel, call)

    def ping(self) -> None:
        """Send a ping."""
        self._do(self.frames.out.append, PING_OUT)

    def _do(self, change: Callable[..., None], *about: object) -> None:
        with self.mutex:
            try:
                change(*about)
                if self.frames.out:
                    self._flush()
            except BaseException:  # interrupted: nobody knows where the frames stand
                self._break("interrupted")
                raise

    def read(self, within: float) -> None:
        """Wait for bytes from the server, and take them. TimeoutError: nothing came; any other
        OSError: the connection is broken."""
        if not self._wait(within):
            raise TimeoutError
        data = self.receive(READ_MAX)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self.received(data)

    def received(self, data: bytes) -> None:
        with self.mutex:
            if self._seal is not None:
                data = self._seal.unseal(data)
            self.frames.feed(data)
            if self._seal is not None and self._seal.is_over:
                raise ConnectionResetError("the server closed the connection")
            if self.frames.pongs and not self._pong_at:
                self._pong_at = monotonic() + PONG_S
            if self.frames.out or self._seal is not None:
                self._flush()  # whoever reads closes if this is interrupted

    def _flush(self) -> None:
        """Send all. Errors are for whoever reads to find."""
        if not self.usable:
            return
        if self._pong_at and monotonic() >= self._pong_at:
            self._move_pongs()
        out = b"".join(self.frames.out)
        self.frames.out.clear()
        try:
            if self._seal is not None:
                out = self._seal.seal(out) if out else self._seal.answer()
            if out:
                self._socket.sendall(out)
        except OSError as error:
            self._break(str(error))

    def pong(self) -> None:
        """Answer the server's pings now."""
        if self.frames.pongs:
            self._do(self._move_pongs)

    def _move_pongs(self) -> None:
        self._pong_at = 0.0
        self.frames.out += self.frames.pongs
        self.frames.pongs.clear()

    def close(self, why: str = "the client is closed") -> None:
        """End the connection, and all calls on it."""
        with self.mutex:
            self._break(why)
            self.frames.fail(why)

    def _break(self, why: str) -> None:
        """Wake whoever reads, and let nobody send any more."""
        if self.usable:
            self.usable = False
            self.frames.leaving = self.frames.leaving or why
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is not connected any more

    def let_go(self) -> None:
        """Close the socket itself, once nobody reads it."""
        self._socket.close()
