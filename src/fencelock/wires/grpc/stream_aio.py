"""Open a stream for asyncio, on the connection that calls share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .call import Call, RpcError
from .client_aio import AioClient


class _StreamCall(Call):
    """A call that tells of each message."""

    __slots__ = ("_on_end", "_on_message")

    def __init__(
        self, head: bytes, on_message: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        super().__init__(head, None, goes_on=True)
        self._on_message = on_message
        self._on_end = on_end

    def on_message(self, message: bytes) -> None:
        self._on_message(message)

    def on_end(self) -> None:
        self._on_end()


class AioStream:
    """Messages both ways, until either side ends it."""

    def __init__(
        self,
        client: Awaitable[AioClient],
        head: bytes,
        on_message: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self._call = _StreamCall(head, on_message, on_end)
        self._early: list[bytes] = []
        """Messages to be sent once there is a connection."""
        self._client: AioClient | None = None
        self._task = asyncio.ensure_future(self._begin(client))

    async def _begin(self, client: Awaitable[AioClient]) -> None:
        try:
            found = await client
        except RpcError as error:
            self._call.end(error)
            return
        if not self._call.done:
            self._client = found
            found.begin(self._call)
            for message in self._early:
                found.send(self._call, message)

    def send(self, message: bytes) -> None:
        if self._client is None:
            self._early.append(message)
        else:
            self._client.send(self._call, message)

    def close(self) -> None:
        self._call.end(None)
        if self._client is not None:
            self._client.end(self._call)
