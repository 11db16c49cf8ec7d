"""The wire for threads: one connection for each member and channel, shared by all threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, sleep

from ....wires.grpc.client_threads import ThreadsClient
from ....wires.grpc.connection import OnEnd, OnMessage
from ....wires.grpc.server import Metadata, Server
from ....wires.grpc.status import RpcError, cannot_connect
from ....wires.grpc.stream_threads import ThreadsStream
from ....wires.grpc.tls import context_of
from ....wires.tls import Tls

BUSY_WAIT_S = 0.005


class ThreadsWire:
    """The connections to the members of a cluster, each made when it is first needed."""

    def __init__(
        self, members: Sequence[str], tls: Tls | None, left: Callable[[], float] = lambda: inf
    ) -> None:
        """``left`` returns how many seconds remain to the call that this thread is running."""
        context = None if tls is None else context_of(tls)
        self._servers = [Server.at(member, context) for member in members]
        self._left = left
        self._clients: dict[tuple[int, int], ThreadsClient] = {}
        self._connect_locks: dict[tuple[int, int], threading.Lock] = {}
        """One for each member and channel: only one thread connects at a time."""
        self._closed = False

    async def call(
        self, member: int, channel: int, method: str, request: bytes, within: float, about: Metadata
    ) -> bytes:
        client = self._clients.get((member, channel))
        head = self._servers[member].headers[method, within, about]
        left = self._left()
        if left < within:
            within = left
            if within <= 0:
                raise cannot_connect(TimeoutError())
        if client is None or not client.is_alive():
            due = monotonic() + within
            client = self._connect((member, channel), due)
            within = max(due - monotonic(), 0.01)
        return client.call(head, request, within)

    def _connect(self, key: tuple[int, int], due: float) -> ThreadsClient:
        """Connect, once for all concurrent callers.

        Other callers poll for the end of that: a signal handler that raises could leave a lock
        locked that is acquired with a timeout, but not one of a ``with``.
        """
        connecting = self._connect_locks.setdefault(key, threading.Lock())
        while connecting.locked():
            if monotonic() >= due:
                raise cannot_connect(TimeoutError())
            sleep(BUSY_WAIT_S)
        with connecting:
            return self._connected(key, due)

    def _connected(self, key: tuple[int, int], due: float) -> ThreadsClient:
        if self._closed:
            raise RpcError("UNAVAILABLE", "the client is closed", unsent=True)
        client = self._clients.get(key)
        if client is None or not client.is_alive():
            if client is not None:
                client.retire()
            left = max(due - monotonic(), 0.01)
            client = self._clients[key] = ThreadsClient(self._servers[key[0]], left)
        if self._closed:  # meanwhile
            client.close()
        return client

    def stream(
        self, member: int, method: str, about: Metadata, on_message: OnMessage, on_end: OnEnd
    ) -> ThreadsStream:
        server = self._servers[member]
        return ThreadsStream(server, server.headers[method, None, about], on_message, on_end)

    def leave(self, member: int, channel: int) -> None:
        client = self._clients.pop((member, channel), None)
        if client is not None:
            client.retire()

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        """Close all connections; calls in progress end at once."""
        self._closed = True
        while self._clients:
            _, client = self._clients.popitem()
            client.close()
