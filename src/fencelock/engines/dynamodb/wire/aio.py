"""The wire for asyncio: aiobotocore's client, opened by the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession

from ....errors import Unavailable
from ....wires.single_flight_aio import AioSingleFlight
from ..settings import Settings
from . import options_of
from .errors import told


class AioWire:
    """A client of aiobotocore, for one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._table = {"TableName": settings.table}
        self._loop = asyncio.get_running_loop()
        self._client: Any = None
        self._context: Any = None
        self._opening = AioSingleFlight[Any]("fencelock-dynamodb")
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        table = self._settings.table
        if self._closed:
            raise Unavailable(f"DynamoDB's table {table!r} was not asked: the client is closed")
        if self._client is None:
            task, _ = self._opening.join("client", self._open)
            await asyncio.wait((task,))
            if task.cancelled():
                raise Unavailable(f"DynamoDB's table {table!r} was not asked: closed meanwhile")
            task.result()
        try:
            answer: dict[str, Any] = await getattr(self._client, operation)(
                **self._table, **request
            )
        except Exception as error:
            raise told(error, operation, table) from error
        return answer

    async def _open(self) -> None:
        context = AioSession().create_client("dynamodb", **options_of(self._settings, AioConfig))
        self._client = await context.__aenter__()
        self._context = context

    async def close(self) -> None:
        self._closed = True
        self._opening.cancel()
        await self._opening.join_all()
        context, self._context = self._context, None
        if context is not None:
            await context.__aexit__(None, None, None)

    def close_nowait(self) -> None:
        """Close in the background, if the loop still runs."""
        self._closed = True
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_later)

    def _close_later(self) -> None:
        self._closing = self._loop.create_task(self.close())
