"""The connections of an asyncio program: one for each server and purpose, for all its tasks.

All tasks that need a connection that is not there yet wait for the same one. A subscription is a
connection by itself, because no other request can be sent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from ....errors import OutcomeUnknown, Unavailable
from ....wires.single_flight_aio import AioSingleFlight
from ..settings import Node, Settings
from .connection import CLOSED, Purpose, packed, time_up
from .connection_aio import AioConnection, AioSubscription


class AioFastPath:
    """Requests of one reply to one server: the caller awaits the future itself."""

    direct = None

    def __init__(self, pool: AioPool, node: Node) -> None:
        self._pool = pool
        self._node = node
        self._connection: AioConnection | None = None

    def request(self, payload: bytes, request_timeout: float) -> Awaitable[Any]:
        connection = self._connection
        if connection is None or not connection.usable:
            return self._reach(payload, request_timeout)
        return connection.request(payload, 0, request_timeout)

    async def _reach(self, payload: bytes, request_timeout: float) -> Any:
        self._connection = await self._pool.connected(self._node, "main", request_timeout)
        return await self._connection.request(payload, 0, request_timeout)


class AioPool:
    """All connections of one client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._connections: dict[tuple[Node, Purpose], AioConnection] = {}
        self._connecting = AioSingleFlight[AioConnection]("fencelock-connect")
        """In tasks of their own: redis-py may swallow the cancellation of ours."""
        self._sentinels = settings.nodes if settings.topology == "sentinel" else ()
        self._closed = False

    async def request(
        self, node: Node, payload: bytes, count: int, request_timeout: float, purpose: Purpose
    ) -> Sequence[Any]:
        connection = await self.connected(node, purpose, request_timeout)
        replies: list[Any] = await connection.request(payload, count, request_timeout)
        return replies

    def fast_path(self, node: Node) -> AioFastPath:
        return AioFastPath(self, node)

    async def connected(
        self, node: Node, purpose: Purpose, request_timeout: float
    ) -> AioConnection:
        """Return the connection to a server, made within so many seconds if there is none."""
        connection = self._connections.get((node, purpose))
        if connection is None or not connection.usable:
            connection = await self._connect(node, purpose, request_timeout)
        return connection

    async def _connect(self, node: Node, purpose: Purpose, request_timeout: float) -> AioConnection:
        """Connect, together with all tasks that need the same connection; one that leaves ends
        nothing.

        An attempt that began before this call, perhaps while the server was silent, may fail: then
        there is time for another.
        """
        until = self._loop.time() + request_timeout
        while True:
            if self._closed:
                raise Unavailable(CLOSED)
            work = partial(self._open, node, purpose)
            task, began = self._connecting.join((node, purpose), work)
            await asyncio.wait({task}, timeout=until - self._loop.time())
            if not task.done():
                raise time_up(node)
            is_over = began or self._loop.time() >= until
            if is_over or task.cancelled() or task.exception() is None:
                return task.result()

    async def _open(self, node: Node, purpose: Purpose) -> AioConnection:
        connection = AioConnection(node)
        await connection.connect(self._settings, node in self._sentinels)
        if self._closed:
            connection.close()
        else:
            self._connections[node, purpose] = connection
        return connection

    async def subscribe(self, node: Node, channel: str) -> AioSubscription:
        connection = AioSubscription(node)
        work = connection.connect(self._settings, node in self._sentinels)
        task = self._loop.create_task(work, name="fencelock-connect")
        try:
            await asyncio.wait({task})
            task.result()
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: _close_quietly(connection, done))
            raise
        try:
            payload = packed("SUBSCRIBE", channel)
            await connection.request(payload, 1, self._settings.request_timeout)
        except BaseException as error:
            connection.close()
            if isinstance(error, OutcomeUnknown):
                raise Unavailable(str(error)) from error
            raise
        return connection

    def drop(self, node: Node) -> None:
        for key in [key for key in self._connections if key[0] == node]:
            self._connections.pop(key).close()

    async def close(self) -> None:
        self._closed = True
        self._close_all()

    def close_nowait(self) -> None:
        self._closed = True
        try:
            self._loop.call_soon_threadsafe(self._close_all)
        except RuntimeError:
            pass  # the loop is closed, and its connections with it

    def _close_all(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def _close_quietly(connection: AioConnection, task: asyncio.Task[None]) -> None:
    """Close a connection that nobody needs any more, if it was made at all."""
    if not task.cancelled() and task.exception() is None:
        connection.close()
