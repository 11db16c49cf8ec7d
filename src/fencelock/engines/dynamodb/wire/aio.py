"""The wire for asyncio: aiobotocore's client, opened by the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from ....errors import Unavailable
from ....wires.single_flight_aio import AioSingleFlight
from ..settings import Settings
from . import new_client
from .errors import map_error


class AioWire:
    """A client of aiobotocore, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._client: Any = None
        self._opened = AsyncExitStack()
        self._opening = AioSingleFlight[None]("fencelock-dynamodb")
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        table = self._settings.table
        try:
            if self._client is None and not self._closed:
                task, _ = self._opening.join("client", self._open)
                await asyncio.wait((task,))
                task.result()
            if not self._closed:
                answer: Any = await getattr(self._client, operation)(TableName=table, **request)
                return dict(answer)
        except Exception as error:
            raise map_error(error, operation, table) from error
        raise Unavailable(f"DynamoDB's table {table!r} was not asked: the client is closed")

    async def _open(self) -> None:
        client = new_client(self._settings, "aiobotocore", "Aio")
        self._client = await self._opened.enter_async_context(client)

    async def close(self) -> None:
        self._closed = True
        await self._opening.join_all()
        await self._opened.aclose()

    def close_nowait(self) -> None:
        """Close in the background, if the loop still runs."""
        self._closed = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_later)

    def _close_later(self, ended: asyncio.Task[None] | None = None) -> None:
        if ended is None or ended.cancelled():  # an ending loop cancels it before it has begun
            self._closing = self._loop.create_task(self.close())
            self._closing.add_done_callback(self._close_later)
