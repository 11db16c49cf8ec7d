"""A TCP proxy between a client and its server that delays, blocks, cuts and loses on demand.

It runs in a thread of its own on loopback and knows no protocol, but for *requests*. A request
begins with the first bytes that a client sends, or the first after a reply: all that it sends
before the next reply belongs to it, so a pipeline of ten commands is one request, and one round
trip.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Self, TypeVar

TO_SERVER = "to the server"
TO_CLIENT = "to the client"

SLOW_READER_S = 0.001
REMEMBERED = 1 << 20  # bytes of a request that are kept, for the search in lose_next_reply()


class Flow:
    """One direction of one connection: the bytes in transit."""

    def __init__(self, way: str, source: socket.socket, target: socket.socket) -> None:
        self.way = way
        self.source = source
        self.target = target
        self.ended = False
        self.finished = False
        self._bytes: deque[tuple[float, bytes]] = deque()

    @property
    def waiting(self) -> int:
        return sum(len(data) for _, data in self._bytes)

    @property
    def due(self) -> float:
        return self._bytes[0][0]

    def take(self, data: bytes, delay: float) -> None:
        self._bytes.append((time.monotonic() + delay, data))

    def give(self, now: float) -> None:
        """Forward the bytes that are due by now."""
        while self._bytes and self.due <= now:
            due, data = self._bytes.popleft()
            try:
                sent = self.target.send(data)
            except BlockingIOError:
                sent = 0
            if sent < len(data):  # the other side reads slowly: retry a moment later
                self._bytes.appendleft((max(due, now + SLOW_READER_S), data[sent:]))
                return
        if self.ended and not self._bytes and not self.finished:
            self.finished = True
            self.target.shutdown(socket.SHUT_WR)


class ProxyConnection:
    """One connection of a client, and the proxy's connection to the server for it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.flows = (Flow(TO_SERVER, client, server), Flow(TO_CLIENT, server, client))
        self.request = b""
        """The bytes that the client has sent since the last reply."""
        self.answered = True
        self.silent = False
        """Whether replies are no longer passed on to the client."""
        self.gone = False

    def keep_request(self, data: bytes) -> None:
        """Keep what the client sends: a new request, if the last one was answered."""
        self.request = (b"" if self.answered else self.request[:REMEMBERED]) + data
        self.answered = False

    def abort(self) -> None:
        """Close both ends with a reset."""
        self.gone = True
        for flow in self.flows:
            abort(flow.source)


def abort(end: socket.socket) -> None:
    """Close with a reset, as a firewall or a dying machine does, and not gracefully."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


T = TypeVar("T")

CHUNK = 1 << 16
CONNECT_S = 5.0
DONE_S = 10.0


class Proxy:
    """A proxy with one address in front of one server, with faults on demand."""

    def __init__(self, to: int, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target = (host, to)
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._wakeup_read, self._wakeup_write = os.pipe()
        self._commands: deque[Callable[[], None]] = deque()
        self._open_connections: list[ProxyConnection] = []
        self._blocked: set[str] = set()
        self._cut = False
        self._delay = 0.0
        self._lose: list[tuple[bytes, bool]] = []
        self._closed = False
        self.lost = 0
        """How many replies were dropped."""
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # Commands for a test. Each has taken effect when the call returns.

    def heal(self) -> None:
        """Forward everything again, beginning with the bytes that have waited."""
        self._command(self._heal)

    def block(self, *ways: str) -> None:
        """Hold bytes back, in one direction or in both; the connections stay."""
        self._command(lambda: self._block(*ways))

    def cut(self) -> None:
        """Reset all connections and refuse new ones, until healed."""
        self._command(self._cut_off)

    def reset(self) -> None:
        """Reset all open connections; new ones are accepted."""
        self._command(self._reset)

    def delay(self, seconds: float) -> None:
        """Delay every byte by so many seconds, in each direction."""
        self._command(lambda: setattr(self, "_delay", seconds))

    def lose_next_reply(self, to: bytes = b"", *, then_cut: bool = True, count: int = 1) -> None:
        """Drop the server's next reply to a request that contains these bytes.

        Then that connection is reset, or stays open in silence for good: a reply that came later
        would be taken for the lost one. What a server pushes without a request is no reply.
        """
        self._command(lambda: self._lose.extend([(to, then_cut)] * count))

    # Start and end.

    def start(self) -> Self:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wakeup_read, selectors.EVENT_READ, self._obey)
        self._thread.start()
        return self

    def close(self) -> None:
        """Reset everything and stop."""
        if not self._closed:
            self._command(self._end)
            self._thread.join(DONE_S)
            self._selector.close()
            os.close(self._wakeup_read)
            os.close(self._wakeup_write)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    # Commands come from other threads; only the proxy's own thread touches its state.

    def _command(self, command: Callable[[], None]) -> None:
        self._call(command)

    def _call(self, function: Callable[[], T]) -> T:
        """Run a function in the proxy's thread, and return what it returns."""
        results: list[T] = []
        done = threading.Event()

        def run() -> None:
            results.append(function())
            done.set()

        self._commands.append(run)
        os.write(self._wakeup_write, b"!")
        if not done.wait(DONE_S):
            raise RuntimeError("the proxy's thread does not answer: has it been closed?")
        return results[0]

    def _obey(self) -> None:
        os.read(self._wakeup_read, 1)
        self._commands.popleft()()

    def _heal(self) -> None:
        self._blocked.clear()
        self._lose.clear()
        self._cut = False
        self._delay = 0.0

    def _block(self, *ways: str) -> None:
        assert {*ways} <= {TO_SERVER, TO_CLIENT}, f"there is no such direction: {ways}"
        self._blocked |= {*ways} or {TO_SERVER, TO_CLIENT}

    def _cut_off(self) -> None:
        self._cut = True
        self._reset()

    def _reset(self) -> None:
        for connection in [*self._open_connections]:
            self._drop(connection)

    def _end(self) -> None:
        self._closed = True
        self._reset()
        self._selector.unregister(self._listener)
        self._listener.close()

    # The loop.

    def _run(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select(self._time_to_next()):
                key.data()
            for connection in [*self._open_connections]:
                self._move(connection)

    def _time_to_next(self) -> float | None:
        """Return the seconds until a delayed byte may be forwarded; None if none is delayed."""
        flows = [flow for connection in self._open_connections for flow in connection.flows]
        due = [flow.due for flow in flows if flow.waiting and flow.way not in self._blocked]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._cut:
            abort(client)
            return
        try:
            server = socket.create_connection(self._target, timeout=CONNECT_S)
        except OSError:
            abort(client)  # the server is down: a client sees no more without the proxy
            return
        connection = ProxyConnection(client, server)
        self._open_connections.append(connection)
        for flow in connection.flows:
            flow.source.setblocking(False)
            flow.source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(
                flow.source, selectors.EVENT_READ, lambda flow=flow: self._read(connection, flow)
            )

    def _read(self, connection: ProxyConnection, flow: Flow) -> None:
        if connection.gone:
            return
        try:
            data = flow.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if not data:
            flow.ended = True
            self._selector.unregister(flow.source)
        elif flow.way == TO_SERVER:
            self._take_request(connection, flow, data)
        else:
            self._take_reply(connection, flow, data)

    def _take_request(self, connection: ProxyConnection, flow: Flow, data: bytes) -> None:
        connection.keep_request(data)
        flow.take(data, self._delay)

    def _take_reply(self, connection: ProxyConnection, flow: Flow, data: bytes) -> None:
        wanted = (
            []
            if connection.answered
            else [one for one in self._lose if one[0] in connection.request]
        )
        connection.answered = True
        if wanted:
            self._lose.remove(wanted[0])
            self.lost += 1
            connection.silent = True
            if wanted[0][1]:
                self._drop(connection)
        if not connection.silent:
            flow.take(data, self._delay)

    def _move(self, connection: ProxyConnection) -> None:
        """Forward the bytes that are due, and the end of a stream after its last byte."""
        for flow in connection.flows:
            if connection.gone or flow.way in self._blocked:
                continue
            try:
                flow.give(time.monotonic())
            except OSError:
                self._drop(connection)
        if all(flow.finished for flow in connection.flows):
            self._drop(connection)

    def _drop(self, connection: ProxyConnection) -> None:
        if connection.gone:
            return
        self._open_connections.remove(connection)
        for flow in connection.flows:
            if not flow.ended:
                self._selector.unregister(flow.source)
        connection.abort()
