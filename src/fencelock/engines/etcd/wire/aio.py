"""The wire for asyncio: one connection for each member and channel, shared by all tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ....wires.grpc.client_aio import AioClient, AioStream, connect
from ....wires.grpc.connection import OnEnd, OnMessage
from ....wires.grpc.server import Metadata, Server
from ....wires.grpc.status import RpcError, cannot_connect
from ....wires.grpc.tls import context_of
from ....wires.single_flight_aio import AioSingleFlight
from ....wires.tls import Tls
from . import WORK

CONNECT_S = 3.0  # for a stream


class AioWire:
    """The connections to the members of a cluster, each made when it is first needed."""

    def __init__(self, members: Sequence[str], tls: Tls | None) -> None:
        context = None if tls is None else context_of(tls)
        self._servers = [Server.at(member, context) for member in members]
        self._loop = asyncio.get_running_loop()
        self._clients: dict[tuple[int, int], AioClient] = {}
        self._left: set[AioClient] = set()
        """Retired connections, on which calls may still be in progress."""
        self._connecting = AioSingleFlight[AioClient]("fencelock-connect")
        self._closed = False

    async def call(
        self, member: int, channel: int, method: str, request: bytes, within: float, about: Metadata
    ) -> bytes:
        client = self._clients.get((member, channel))
        head = self._servers[member].headers[method, within, about]
        if client is None or not client.usable:
            due = self._loop.time() + within
            client = await self._connected(member, channel, within)
            within = max(due - self._loop.time(), 0.01)
        return await client.call(head, request, within)

    async def _connected(self, member: int, channel: int, within: float) -> AioClient:
        """Connect, once for all concurrent callers; that goes on even if they are cancelled."""
        key = (member, channel)
        client = self._clients.get(key)
        if client is not None and client.usable:
            return client
        if self._closed:
            raise RpcError("UNAVAILABLE", "the client is closed", unsent=True)
        task, _ = self._connecting.join(key, lambda: self._connect(key, within))
        done, _ = await asyncio.wait((task,), timeout=within)
        if not done or task.cancelled():
            raise cannot_connect(TimeoutError())
        return task.result()

    async def _connect(self, key: tuple[int, int], within: float) -> AioClient:
        client = await connect(self._servers[key[0]], within)
        self.leave(*key)
        self._clients[key] = client
        if self._closed:
            client.close()
        return client

    def stream(
        self, member: int, method: str, about: Metadata, on_message: OnMessage, on_end: OnEnd
    ) -> AioStream:
        head = self._servers[member].headers[method, None, about]
        return AioStream(self._connected(member, WORK, CONNECT_S), head, on_message, on_end)

    def leave(self, member: int, channel: int) -> None:
        self._left = {client for client in self._left if not client.closed}
        client = self._clients.pop((member, channel), None)
        if client is not None:
            client.retire()
            self._left.add(client)

    async def close(self) -> None:
        self._close()
        await self._connecting.join_all()
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def _close(self) -> None:
        self._closed = True
        self._connecting.cancel()
        for client in (*self._clients.values(), *self._left):
            client.close()
        self._clients.clear()
        self._left.clear()

    def close_nowait(self) -> None:
        """Close in the background, if the loop still runs."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)
