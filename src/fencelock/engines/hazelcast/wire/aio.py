"""The wire for asyncio: Hazelcast's own asyncio client, for one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ....errors import Unavailable
from ....wires.single_flight_aio import AioSingleFlight
from ..settings import Settings
from . import Done, client_class, config, listed, new_invocation
from .errors import no_answer, not_connected, told

SPARE_S = 1.0  # for what the client does beside connecting


class AioWire:
    """A client, made by the first request, and anew when it has given up on the cluster."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._client: Any = None
        self._connecting = AioSingleFlight[None]("fencelock-hazelcast")
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    async def connect(self) -> None:
        if self._runs():
            return
        task, _ = self._connecting.join("client", self._connect)
        await asyncio.wait((task,))
        task.result()
        if not self._runs():
            raise Unavailable("this client of Hazelcast is closed")

    def _runs(self) -> bool:
        client = self._client
        return not self._closed and client is not None and client.lifecycle_service.is_running()

    async def _connect(self) -> None:
        if self._closed or self._runs():
            return
        longest = self._settings.connect_timeout + self._settings.request_timeout + SPARE_S
        try:
            made: Any = client_class("hazelcast.asyncio")(**config(self._settings))
            try:
                await asyncio.wait_for(made._start(), longest)
            except BaseException:
                await made.shutdown()
                raise
        except Exception as error:
            raise not_connected(error, self._settings) from error
        self._client = made
        if self._closed:
            await made.shutdown()

    def send(self, operation: str, arguments: Sequence[Any], done: Done, waits: bool) -> None:
        self._send(operation, arguments, done, waits)

    def _send(
        self, operation: str, arguments: Sequence[Any], done: Done, waits: bool = False
    ) -> Callable[[], bool]:
        module, timeout = "hazelcast.internal.asyncio_invocation", self._settings.request_timeout
        invocation = new_invocation(module, operation, arguments, waits, timeout)

        def answered(future: asyncio.Future[Any]) -> None:
            if future.cancelled():
                done(no_answer(operation, timeout), True)
                return
            error, sent = future.exception(), bool(invocation.sends)
            done(
                future.result() if error is None else told(error, operation, sent),
                invocation.sends > 1,
            )

        invocation.future.add_done_callback(answered)
        self._client._invocation_service.invoke(invocation)
        return lambda: bool(invocation.sends)

    async def call_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        await self.connect()
        timeout, waits = self._settings.request_timeout, list[asyncio.Future[Any]]()
        sent = list[Callable[[], bool]]()
        for operation, arguments in requests:
            wait: asyncio.Future[Any] = self._loop.create_future()

            def done(answer: Any, resent: bool, wait: asyncio.Future[Any] = wait) -> None:
                if not wait.done():
                    wait.set_result(answer)

            waits.append(wait)
            sent.append(self._send(operation, arguments, done))
        if waits:
            await asyncio.wait(waits, timeout=timeout)
        return [
            wait.result() if wait.done() else no_answer(operation, timeout, was_sent())
            for wait, was_sent, (operation, _) in zip(waits, sent, requests, strict=True)
        ]

    async def put(self, table: str, key: str, value: str, ttl: float) -> None:
        async def put() -> None:
            await (await self._client.get_map(table)).set(key, value, ttl)

        await self._finish(put)

    async def get(self, table: str, key: str) -> str | None:
        async def get() -> Any:
            return await (await self._client.get_map(table)).get(key)

        found = await self._finish(get)
        return None if found is None else str(found)

    async def _finish(self, begin: Callable[[], Awaitable[Any]]) -> Any:
        await self.connect()
        timeout = self._settings.request_timeout
        try:
            return await asyncio.wait_for(begin(), timeout)
        except TimeoutError as error:
            raise no_answer("a map of the cluster", timeout, sent=False) from error
        except Exception as error:
            raise told(error, "a map of the cluster", sent=False) from error

    def members(self) -> list[tuple[str, str]]:
        return listed(self._client)

    async def close(self) -> None:
        self._closed = True
        await self._connecting.join_all()
        if self._client is not None:
            await self._client.shutdown()

    def close_nowait(self) -> None:
        """Close in the background, if the loop still runs."""
        self._closed = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_later)

    def _close_later(self, ended: asyncio.Task[None] | None = None) -> None:
        if ended is None or ended.cancelled():  # a loop that ends cancels it before it has begun
            self._closing = self._loop.create_task(self.close())
            self._closing.add_done_callback(self._close_later)
