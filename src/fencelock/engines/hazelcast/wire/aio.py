"""The wire for asyncio: Hazelcast's own asyncio client, for one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ....errors import Unavailable
from ....wires.single_flight_aio import AioSingleFlight
from ..settings import Settings
from . import SPARE_S, UNANSWERED, ClientRequest, ClientWire
from .errors import no_answer, not_connected


class AioWire(ClientWire):
    """A client, created by the first request, and again when it has given up on the cluster."""

    package, invocations = "hazelcast.asyncio", "hazelcast.internal.asyncio_invocation"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._loop = asyncio.get_running_loop()
        self._connecting = AioSingleFlight[None]("fencelock-hazelcast")
        self._closing: asyncio.Task[None] | None = None
        self._hanging_up = set[asyncio.Task[None]]()

    def _hang_up(self, connection: Any) -> None:
        task = self._loop.create_task(connection.close_connection(UNANSWERED, None))
        self._hanging_up.add(task)
        task.add_done_callback(self._hanging_up.discard)

    async def connect(self) -> None:
        if self._runs():
            return
        task, _ = self._connecting.join("client", self._connect)
        await asyncio.wait((task,))
        task.result()
        if not self._runs():
            raise Unavailable("this client of Hazelcast is closed")

    async def _connect(self) -> None:
        if self._closed or self._runs():
            return
        longest = self._settings.connect_timeout + self._settings.request_timeout + SPARE_S
        try:
            made = self._new_client()
            try:
                await asyncio.wait_for(made._start(), longest)
            except BaseException:
                await self._shut_down(made)
                raise
        except Exception as error:
            raise not_connected(error, self._settings) from error
        self._client = made
        if self._closed:
            await self._shut_down(made)

    async def _shut_down(self, client: Any) -> None:
        await client.shutdown()
        for connection in list(client.unanswered):  # which shutdown() does not know yet
            await connection.close_connection(UNANSWERED, None)

    async def call_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        await self.connect()
        timeout, waits = self._settings.request_timeout, list[asyncio.Future[Any]]()
        sent = list[ClientRequest]()
        for operation, arguments in requests:
            wait: asyncio.Future[Any] = self._loop.create_future()

            def done(answer: Any, _: bool, wait: asyncio.Future[Any] = wait) -> None:
                if not wait.done():
                    wait.set_result(answer)

            waits.append(wait)
            sent.append(self.request(operation, arguments, done))
            sent[-1].send()
        if waits:
            await asyncio.wait(waits, timeout=timeout)
        for wait, request in zip(waits, sent, strict=True):
            if not wait.done():
                self._missed(request)
        return [
            wait.result() if wait.done() else no_answer(operation, timeout, request.was_sent)
            for wait, request, (operation, _) in zip(waits, sent, requests, strict=True)
        ]

    async def close(self) -> None:
        self._closed = True
        await self._connecting.join_all()
        if self._client is not None:
            await self._shut_down(self._client)

    def close_nowait(self) -> None:
        """Close in the background, if the loop still runs."""
        self._closed = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_later)

    def _close_later(self, ended: asyncio.Task[None] | None = None) -> None:
        if ended is None or ended.cancelled():  # a loop that ends may cancel it before it starts
            self._closing = self._loop.create_task(self.close())
            self._closing.add_done_callback(self._close_later)
