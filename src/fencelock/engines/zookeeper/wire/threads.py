"""A connection for threads: each caller sends in its own thread, one reader thread serves all.

So a request costs one thread switch to the reader and one back. The reader also connects, pings,
and switches to another member when this one is silent. Nothing here blocks for longer than
``request_timeout``.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import weakref
from time import monotonic
from typing import Any

from ....errors import OutcomeUnknown, Unavailable
from ....wires import tcp
from ....wires.poll import READ, WRITE, new_poll, wait_for
from ....wires.thread_flag import ThreadFlag
from ....world import NO_LIMIT, World
from . import messages
from .connection import RETRY_S, TRIES, Connection, Settings
from .messages import Batch, Request, Watcher

CHUNK = 1 << 16
JOIN_S = 2.0
SEND_S = 1.0  # a server that accepts no byte for so long, with all buffers full, is gone

_connections: weakref.WeakSet[ThreadsConnection] = weakref.WeakSet()


class ThreadsConnection(Connection):
    """One session, shared by the threads of a process."""

    def __init__(self, settings: Settings, world: World) -> None:
        super().__init__(settings, world)
        self._call_limit = world.limit
        self._mutex = threading.Lock()  # orders the requests, and guards the session's state
        self._ready = ThreadFlag()
        self._all_tried = ThreadFlag()  # every member once
        self._retry_now = ThreadFlag()
        self._socket: socket.socket | None = None
        self._reader: threading.Thread | None = None
        _connections.add(self)

    async def open(self) -> None:
        self._tls()
        self._reader = threading.Thread(target=self._run, name="fencelock-zookeeper", daemon=True)
        self._reader.start()
        self._all_tried.wait(self._within(self.open_timeout))
        if not self._ready.is_set():
            self.close_nowait()
            raise self._error

    def _within(self, seconds: float) -> float:
        """Return ``seconds``, or less if the call of this thread must end before."""
        limit = self._call_limit()
        return seconds if limit == NO_LIMIT else max(0.0, min(seconds, limit - self._now()))

    async def ready(self) -> None:
        if not self._ready.is_set():
            self._retry_now.set()
            if self._closed or not self._ready.wait(self._within(self.reconnect_timeout)):
                raise Unavailable(f"no server of the ensemble answers ({self._error})")

    async def call(self, *requests: Request, session: int = 0) -> list[Any]:
        if not requests:
            return []
        gate = threading.Lock()
        gate.acquire()
        batch = Batch(len(requests), gate.release)
        for _ in range(TRIES):
            if not self._ready.is_set():
                await self.ready()
            sent_at = self._now()
            if self._send(requests, batch, session):
                break
        else:
            raise Unavailable(
                "the connection to ZooKeeper breaks again and again; nothing was sent"
            )
        request_timeout = self.request_timeout
        within = self._within(request_timeout)
        if not gate.acquire(timeout=within):
            if within >= request_timeout:
                self._shut_down()
            raise self._no_reply(requests, broke=False)
        if batch.lost:
            raise self._no_reply(requests)
        return self._checked(requests, batch.replies, sent_at)

    async def close(self, end_session: bool) -> None:
        if end_session and self._ready.is_set():
            try:
                await self.call(messages.CLOSE)
            except (Unavailable, OutcomeUnknown):
                pass  # the session expires by its timeout
        self.close_nowait()
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(JOIN_S)

    def close_nowait(self) -> None:
        self._closed = True
        self._retry_now.set()
        self._shut_down()

    def unwatch(self, path: str, watcher: Watcher) -> None:
        with self._mutex:
            super().unwatch(path, watcher)

    def _send(self, requests: tuple[Request, ...], batch: Batch, session: int) -> bool:
        """Send requests; return False if there is no connection at this moment."""
        with self._mutex:
            sock = self._socket
            if sock is None or not self._session.connected:
                return False
            self._require_session(session)
            try:
                self._write(sock, self._session.send(requests, batch))
            except BaseException as error:  # a part of a request may be sent, so no other can be
                self._shut_down()
                if not isinstance(error, OSError):
                    raise
                # else the reader finds it broken, and the batch is lost
            return True

    def _write(self, sock: socket.socket, data: bytes) -> None:
        """Send all bytes. The caller has the mutex, so no other request gets between."""
        self._writing()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[sock.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if not wait_for(sock.fileno(), WRITE, SEND_S):
                    raise TimeoutError("the server takes no more bytes") from None

    def _shut_down(self) -> None:
        """Shut the socket down, so that the reader finds the connection broken."""
        sock = self._socket
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    # The reader

    def _run(self) -> None:
        while not self._closed:
            for _ in range(len(self._hosts)):
                host = self._next_host()
                try:
                    self._serve(host)
                except Exception as error:
                    self._member_failed(host, error)
                finally:
                    self._disconnect()
                if self._closed:
                    return
            self._all_tried.set()
            self._retry_now.wait(RETRY_S)
            self._retry_now.clear()

    def _serve(self, host: tuple[str, int]) -> None:
        """Connect to one member and read until the connection breaks."""
        deadline = monotonic() + self.connect_timeout
        sock = tcp.connect(*host, deadline)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context := self._tls():
            tcp.limit(sock, deadline)
            sock = context.wrap_socket(sock, server_hostname=host[0])
        sock.setblocking(False)
        poll = new_poll()
        poll.register(sock.fileno(), READ)
        with self._mutex:
            self._socket = sock
            self._silent_since = None
            self._connected_at = self._now()
            self._write(sock, self._session.connect())
        while not self._closed:
            poll.poll(self._seconds_until_check() * 1000)
            self._read(sock)
            if self._ping_due():
                with self._mutex:
                    self._write(sock, self._session.ping())

    def _read(self, sock: socket.socket) -> None:
        while True:
            with self._mutex:
                try:
                    data = sock.recv(CHUNK)
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return
                if not data:
                    raise ConnectionResetError("the server closed the connection")
                self._silent_since = None
                if following := self._session.receive(data):
                    self._write(sock, following)
            if self._session.connected and not self._ready.is_set():
                if self._session.is_new:
                    self.contact_at = self._connected_at
                self._ready.set()
                self._all_tried.set()
            if len(data) < CHUNK and not isinstance(sock, ssl.SSLSocket):
                return

    def _disconnect(self) -> None:
        if self._ready.is_set():
            self._broken_at = self._now()
        self._ready.clear()
        with self._mutex:
            sock, self._socket = self._socket, None
            self._session.connection_lost()
        if sock is not None:
            sock.close()

    def forget(self) -> None:
        """Close a forked child's copy of the connection, which stays the parent's."""
        sock, self._socket = self._socket, None
        self._closed = True
        if sock is not None:
            sock.close()


def _forget_all() -> None:
    for connection in list(_connections):
        connection.forget()


os.register_at_fork(after_in_child=_forget_all)
