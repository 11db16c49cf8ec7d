"""Open a stream for threads: on a connection of its own, which a thread of its own reads.

The thread connects, too: Ctrl-C strikes the main thread only, and so cannot interrupt that. A
silent server is pinged now and then.
"""

from __future__ import annotations

import threading

from ..daemon_thread import start_daemon
from .client_threads import FrameSocket
from .connection import DEATH_S, SILENCE_S, Call, OnEnd, OnMessage
from .hpack import Malformed
from .server import Server
from .status import RpcError

CONNECT_S = 3.0


class _StreamCall(Call):
    """A call whose messages are kept until the connection's mutex is free."""

    __slots__ = ("news",)

    def __init__(self, head: bytes) -> None:
        super().__init__(head, None, goes_on=True)
        self.news: list[bytes] = []

    def on_message(self, message: bytes) -> None:
        self.news.append(message)


class ThreadsStream:
    """A stream of messages both ways, until either side ends it."""

    def __init__(
        self,
        server: Server,
        head: bytes,
        on_message: OnMessage,
        on_end: OnEnd,
    ) -> None:
        self._server = server
        self._call = _StreamCall(head)
        self._on_message = on_message
        self._on_end = on_end
        self._mutex = threading.Lock()
        self._socket: FrameSocket | None = None
        self._early: list[bytes] = []
        """Messages to send once there is a connection."""
        self._closed = False
        try:
            start_daemon(self._run, "fencelock-watch")
        except BaseException:  # an exception of a signal handler: nothing refers to this stream
            self._closed = True
            raise

    def send(self, message: bytes) -> None:
        with self._mutex:
            if self._socket is None:
                self._early.append(message)
            else:
                self._socket.send(self._call, message)

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            if self._socket is not None:
                self._socket.close()

    def _run(self) -> None:
        try:
            sock = self._begin()
            try:
                self._listen(sock)
            finally:
                sock.close()
                sock.let_go()
        except (OSError, Malformed, RpcError):
            pass  # however it ended: on_end tells the listener, which looks for itself
        finally:
            self._on_end()

    def _begin(self) -> FrameSocket:
        sock = FrameSocket(self._server, CONNECT_S)
        with self._mutex:
            self._socket = sock
            if self._closed:
                sock.close()
            sock.begin(self._call)
            for message in self._early:
                sock.send(self._call, message)
        return sock

    def _listen(self, sock: FrameSocket) -> None:
        pinged = False
        while not self._call.done:
            try:
                sock.read(DEATH_S if pinged else SILENCE_S)
                sock.pong()
                pinged = False
            except (BlockingIOError, TimeoutError):
                if pinged:
                    return  # no sign of life
                sock.ping()
                pinged = True
            news, self._call.news = self._call.news, []
            for message in news:
                self._on_message(message)
