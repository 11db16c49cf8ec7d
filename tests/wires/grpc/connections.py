"""A connection in either flavor, as something that a scenario can await."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from fencelock.engines.etcd.cluster import Stream, Wire
from fencelock.engines.etcd.wire.aio import AioWire
from fencelock.engines.etcd.wire.threads import ThreadsWire
from fencelock.wires.grpc import client_aio, client_threads, stream_threads
from fencelock.wires.grpc.server import Metadata, Server
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON, Lab

T = TypeVar("T")
Hear = Callable[[bytes], None]
End = Callable[[], None]


class Connection(Protocol):
    """One connection for calls, and streams to the same server."""

    async def call(
        self,
        method: str,
        message: bytes = b"",
        within: float = SOON,
        told: float | None = None,
        about: Metadata = (),
    ) -> bytes:
        """``told`` is the time limit that the server learns of."""
        ...

    def usable(self) -> bool: ...

    def stream(self, method: str, hear: Hear, end: End) -> Stream: ...

    def retire(self) -> None: ...

    async def close(self) -> None: ...


class ThreadsConnection:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.client = client_threads.ThreadsClient(server, SOON)

    async def call(
        self,
        method: str,
        message: bytes = b"",
        within: float = SOON,
        told: float | None = None,
        about: Metadata = (),
    ) -> bytes:
        head = self._server.headers[f"/test/{method}", told, about]
        return self.client.call(head, message, within)

    def usable(self) -> bool:
        return self.client.is_alive()

    def stream(self, method: str, hear: Hear, end: End) -> Stream:
        return threads_stream(self._server, method, hear, end)

    def retire(self) -> None:
        self.client.retire()

    async def close(self) -> None:
        self.client.close()


class AioConnection:
    def __init__(self, server: Server, client: client_aio.AioClient) -> None:
        self._server = server
        self.client = client

    async def call(
        self,
        method: str,
        message: bytes = b"",
        within: float = SOON,
        told: float | None = None,
        about: Metadata = (),
    ) -> bytes:
        head = self._server.headers[f"/test/{method}", told, about]
        return await self.client.call(head, message, within)

    def usable(self) -> bool:
        return self.client.usable

    def stream(self, method: str, hear: Hear, end: End) -> Stream:
        async def given() -> client_aio.AioClient:
            return self.client

        head = self._server.headers[f"/test/{method}", None, ()]
        return client_aio.AioStream(given(), head, hear, end)

    def retire(self) -> None:
        self.client.retire()

    async def close(self) -> None:
        self.client.close()
        await asyncio.sleep(0)  # the transport closes in the next turn of the loop


def threads_stream(server: Server, method: str, hear: Hear, end: End) -> Stream:
    return stream_threads.ThreadsStream(
        server, server.headers[f"/test/{method}", None, ()], hear, end
    )


async def connect(lab: Lab, address: str, tls: ssl.SSLContext | None = None) -> Connection:
    server = Server.at(address, tls)
    if lab.flavor == "sync":
        return ThreadsConnection(server)
    return AioConnection(server, await client_aio.connect(server, SOON))


@asynccontextmanager
async def connection_to(
    lab: Lab, address: str, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Connection]:
    """A connection that is closed at the end."""
    connection = await connect(lab, address, tls)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def wire_to(lab: Lab, address: str) -> AsyncIterator[Wire]:
    """What connects by itself, and again; closed at the end."""
    make = ThreadsWire if lab.flavor == "sync" else AioWire
    wire: Wire = make([address], None)
    try:
        yield wire
    finally:
        await wire.close()


async def beside(lab: Lab, what: Callable[..., T], *details: object) -> T:
    """Do something that blocks, while the event loop goes on."""
    if lab.flavor == "sync":
        return what(*details)
    return await asyncio.to_thread(what, *details)


async def refusal(work: Coroutine[Any, Any, object]) -> RpcError:
    """How a call was refused; that it was answered is an error."""
    try:
        answer = await work
    except RpcError as error:
        return error
    raise AssertionError(f"it was answered: {answer!r}")
