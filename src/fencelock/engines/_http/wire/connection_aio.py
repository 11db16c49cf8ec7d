"""Connections for asyncio: a protocol of the loop, used by one task at a time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import cast

from ....wires.buffered_protocol import Receiver
from ....world import World
from ..errors import silent, unreachable, untrusted
from .connection import Node
from .http1 import Http1, Response


class AioConnection(Receiver):
    """One connection of asyncio."""

    def __init__(self, http: Http1, where: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._http = http
        self._where = where
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self.is_closed = False

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        data = self._http.request(method, target, body)
        if self.is_closed or self._transport is None:
            raise unreachable(self._where, "the connection is closed")
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        self._transport.write(data)
        timer = self._loop.call_later(timeout, self._fail, TimeoutError(f"in {timeout:g} s"))
        try:
            return await answer
        except OSError as error:
            raise silent(self._where, error) from error
        finally:
            timer.cancel()
            if not answer.done() or answer.cancelled():  # its response would be taken for another's
                self._answer = None
                self._drop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        try:
            if answer is None:
                raise ConnectionError("the node sent data without a request")
            response = self._http.feed(data)
        except ConnectionError as error:
            self._fail(error)
            return
        if response is not None:
            self._answer = None
            if not self._http.reusable:
                self._drop()
            if not answer.done():
                answer.set_result(response)

    def eof_received(self) -> bool:
        """Feed the end of the connection to h11: some responses end with it."""
        if self._answer is not None:
            self.data_received(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        self._drop()
        if answer is not None and not answer.done():
            answer.set_exception(error if isinstance(error, OSError) else OSError(str(error)))

    def _drop(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def closed_by_node(self) -> bool:
        return self.is_closed or self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Close, from any thread."""
        self.is_closed = True
        try:
            self._loop.call_soon_threadsafe(self._fail, ConnectionError("the client was closed"))
        except RuntimeError:
            pass  # the loop is closed, and its sockets with it


async def connect_aio(
    world: World, node: Node, headers: tuple[tuple[str, str], ...]
) -> AioConnection:
    """Connect to a node, within its ``connect_timeout``."""
    loop = asyncio.get_running_loop()
    name = node.host if node.tls is not None else None
    try:
        async with asyncio.timeout(node.connect_timeout):
            _, connection = await loop.create_connection(
                lambda: AioConnection(Http1(headers), node.where),
                node.host,
                node.port,
                ssl=node.tls,
                server_hostname=name,
            )
    except ssl.SSLError as error:
        raise untrusted(node.where, error) from error
    except TimeoutError as error:
        raise unreachable(node.where, f"in {node.connect_timeout:g} s") from error
    except (OSError, UnicodeError) as error:
        raise unreachable(node.where, error) from error
    return connection
