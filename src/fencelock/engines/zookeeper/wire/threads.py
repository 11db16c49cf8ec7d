"""The wire for threads: whoever asks sends by itself, one thread per client reads for all.

So a request costs one switch to the reader and one back. The reader also connects, pings and
goes to another member when this one is silent. Nothing here blocks for longer than
``request_timeout``.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import weakref
from typing import Any

from ....errors import OutcomeUnknown, Unavailable
from ....world import NO_LIMIT, World
from . import messages
from .connection import PINGS, RETRY_S, TRIES, Settings, Wire
from .messages import Flight, Request, Watcher

CHUNK = 1 << 16
JOIN_S = 2.0
SEND_S = 1.0  # a server that takes no byte for so long, with all buffers full, has gone

_wires: weakref.WeakSet[ThreadsWire] = weakref.WeakSet()


class ThreadsWire(Wire):
    """One session, shared by the threads of a process."""

    def __init__(self, settings: Settings, world: World) -> None:
        super().__init__(settings, world)
        self._ends = world.limit
        self._mutex = threading.Lock()  # orders what is sent, and keeps the session's state whole
        self._ready = threading.Event()
        self._tried = threading.Event()  # every member once
        self._rouse = threading.Event()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._sent_at = 0.0
        self._unheard_since: float | None = None
        _wires.add(self)

    async def open(self) -> None:
        self.tls()
        self._thread = threading.Thread(target=self._run, name="fencelock-zookeeper", daemon=True)
        self._thread.start()
        self._tried.wait(self._within(self.round))
        if not self._ready.is_set():
            self.close_nowait()
            raise self._why

    def _within(self, seconds: float) -> float:
        """So long, or as long as the call may still last that this thread is in."""
        ends = self._ends()
        return seconds if ends == NO_LIMIT else max(0.0, min(seconds, ends - self._now()))

    async def ready(self) -> None:
        if not self._ready.is_set():
            self._rouse.set()
            if self._closed or not self._ready.wait(self._within(self.respite)):
                raise Unavailable(f"no server of the ensemble answers ({self._why})")

    async def call(self, *wanted: Request, session: int = 0) -> list[Any]:
        if not wanted:
            return []
        gate = threading.Lock()
        gate.acquire()
        flight = Flight(len(wanted), gate.release)
        for _ in range(TRIES):
            if not self._ready.is_set():
                await self.ready()
            sent_at = self._now()
            if self._send(wanted, flight, session):
                break
        else:
            raise Unavailable(
                "the connection to ZooKeeper breaks again and again; nothing was sent"
            )
        request_timeout = self.request_timeout
        within = self._within(request_timeout)
        if not gate.acquire(timeout=within):
            if within >= request_timeout:
                self._drop()
            raise self._unanswered(wanted, broke=False)
        if flight.lost:
            raise self._unanswered(wanted)
        return self._answered(wanted, flight.answers, sent_at)

    async def close(self, end: bool) -> None:
        if end and self._ready.is_set():
            try:
                await self.call(messages.CLOSE)
            except (Unavailable, OutcomeUnknown):
                pass  # it ends by its timeout
        self.close_nowait()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)

    def close_nowait(self) -> None:
        self._closed = True
        self._rouse.set()
        self._drop()

    def unwatch(self, path: str, watcher: Watcher) -> None:
        with self._mutex:
            super().unwatch(path, watcher)

    def _send(self, wanted: tuple[Request, ...], flight: Flight, session: int) -> bool:
        """False when there is no connection at this moment."""
        with self._mutex:
            line = self._socket
            if line is None or not self._link.welcomed:
                return False
            self._see(session)
            try:
                self._push(line, self._link.ask(wanted, flight))
            except BaseException as error:  # a part of a request may be sent, so no other can be
                self._drop()
                if not isinstance(error, OSError):
                    raise
                # else the reader finds it broken, and the flight is lost
            return True

    def _push(self, line: socket.socket, data: bytes) -> None:
        """Send all of it; the mutex is held, so no other request gets between."""
        self._sent_at = now = self._now()
        if self._unheard_since is None:
            self._unheard_since = now
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[line.send(rest) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                poll = select.poll()
                poll.register(line, select.POLLOUT)
                if not poll.poll(SEND_S * 1000):
                    raise TimeoutError("the server takes no more bytes") from None

    def _drop(self) -> None:
        """Have the reader find the connection broken."""
        line = self._socket
        if line is not None:
            try:
                line.shutdown(socket.SHUT_RDWR)
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
                    self._failed(host, error)
                finally:
                    self._leave()
                if self._closed:
                    return
            self._tried.set()
            self._rouse.wait(RETRY_S)
            self._rouse.clear()

    def _serve(self, host: tuple[str, int]) -> None:
        """Connect to one member and read until the connection breaks."""
        line = socket.create_connection(host, self.hurry)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context := self.tls():
            line = context.wrap_socket(line, server_hostname=host[0])
        line.setblocking(False)
        poll = select.poll()
        poll.register(line, select.POLLIN)
        with self._mutex:
            self._socket = line
            self._unheard_since = None
            greeted_at = self._now()
            self._push(line, self._link.greet())
        while not self._closed:
            poll.poll(self._nap() * 1000)
            self._hear(line, greeted_at)
            self._look(line)

    def _nap(self) -> float:
        """Until a ping is due, or the silence has lasted too long."""
        due = self._sent_at + self.timeout / PINGS
        if self._unheard_since is not None:
            due = min(due, self._unheard_since + self.allowed)
        return max(0.0, due - self._now())

    def _hear(self, line: socket.socket, greeted_at: float) -> None:
        while True:
            with self._mutex:
                try:
                    data = line.recv(CHUNK)
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return
                if not data:
                    raise ConnectionResetError("the server closed the connection")
                self._unheard_since = None
                if asked := self._link.receive(data):
                    self._push(line, asked)
            if self._link.welcomed and not self._ready.is_set():
                if self._link.fresh:
                    self.contact_at = greeted_at
                self._ready.set()
                self._tried.set()
            if len(data) < CHUNK and not isinstance(line, ssl.SSLSocket):
                return

    def _look(self, line: socket.socket) -> None:
        now = self._now()
        if self._unheard_since is not None and now >= self._unheard_since + self.allowed:
            raise TimeoutError("the server is silent")
        if self._link.welcomed and now >= self._sent_at + self.timeout / PINGS:
            with self._mutex:
                self._push(line, self._link.ping())

    def _leave(self) -> None:
        if self._ready.is_set():
            self._broken_at = self._now()
        self._ready.clear()
        with self._mutex:
            line, self._socket = self._socket, None
            self._link.break_off()
        if line is not None:
            line.close()

    def forget(self) -> None:
        """In a forked child: close its copy of the connection, which stays the parent's."""
        line, self._socket = self._socket, None
        self._closed = True
        if line is not None:
            line.close()


def _forget_all() -> None:
    for wire in list(_wires):
        wire.forget()


os.register_at_fork(after_in_child=_forget_all)
