"""The wire for asyncio: gRPC's own asyncio calls, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from .channel import OPTIONS, Tls, credentials, load_grpc
from .forking import gate
from .link import Metadata, Refused

LEAVE_S = 10.0  # calls on a connection that is left have ended by then


class AioWire:
    """Channels to the members of a cluster, each made when it is first needed."""

    def __init__(self, members: Sequence[str], tls: Tls | None) -> None:
        gate.check()
        self._grpc = load_grpc()
        gate.stay()
        self._members = members
        self._tls = None if tls is None else credentials(tls)
        self._loop = asyncio.get_running_loop()
        self._channels: dict[tuple[int, int], Any] = {}
        self._methods: dict[tuple[int, int, str], Any] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    async def call(
        self, member: int, lane: int, method: str, request: bytes, within: float, about: Metadata
    ) -> bytes:
        place = (member, lane, method)
        send = self._methods.get(place) or self._method(place)
        call = send(request, timeout=within, metadata=about)
        ended: asyncio.Future[None] = self._loop.create_future()
        call.add_done_callback(partial(_settle, ended))
        try:
            await ended
        except asyncio.CancelledError:
            await self._end(call)
            raise
        try:
            answer: bytes = await call
        except self._grpc.RpcError as error:
            raise Refused(error.code().name, error.details() or "") from None
        except asyncio.CancelledError:  # nobody cancels but closing: we waited for the end above
            raise Refused("CLOSED", "the client is closed") from None
        return answer

    async def _end(self, call: Any) -> None:
        """Wait for the end of a call whose task was cancelled, and may be again.

        A request that is dropped half-way may still be served, after what undoes it.
        """
        while not call.done():  # its own deadline ends it
            ended: asyncio.Future[None] = self._loop.create_future()
            call.add_done_callback(partial(_settle, ended))
            try:
                await ended
            except asyncio.CancelledError:
                pass

    def stream(
        self,
        member: int,
        method: str,
        about: Metadata,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> AioStream:
        open_stream = self._channel(member, 0).stream_stream(method)
        return AioStream(open_stream, about, hear, end, self._grpc.RpcError)

    def _method(self, place: tuple[int, int, str]) -> Any:
        member, lane, method = place
        # The method itself: calling the object that has it takes a way around.
        found = self._methods[place] = self._channel(member, lane).unary_unary(method).__call__
        return found

    def _channel(self, member: int, lane: int) -> Any:
        if self._closed:
            raise Refused("CLOSED", "the client is closed")
        found = self._channels.get((member, lane))
        if found is None:
            target, aio = self._members[member], self._grpc.aio
            if self._tls is None:
                found = aio.insecure_channel(target, OPTIONS)
            else:
                found = aio.secure_channel(target, self._tls, OPTIONS)
            self._channels[member, lane] = found
        return found

    def leave(self, member: int, lane: int) -> None:
        channel = self._channels.pop((member, lane), None)
        for place in [place for place in self._methods if place[:2] == (member, lane)]:
            del self._methods[place]
        if channel is not None:
            leaving = self._loop.create_task(channel.close(LEAVE_S))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        self._closed = True
        self._methods = {}
        while self._channels:
            _, channel = self._channels.popitem()
            await channel.close()
        for leaving in self._leaving:
            leaving.cancel()
        if self._leaving:
            await asyncio.wait(self._leaving)

    def abandon(self) -> None:
        """Close in the background, if the loop still runs."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_to_close)

    def _begin_to_close(self) -> None:
        self._closing = self._loop.create_task(self.close())


def _settle(ended: asyncio.Future[None], _: object) -> None:
    if not ended.done():
        ended.set_result(None)


class AioStream:
    """A stream that a task of its own reads."""

    def __init__(
        self,
        open_stream: Callable[..., Any],
        about: Metadata,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
        failure: type[Exception],
    ) -> None:
        self._requests: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._call = open_stream(self._messages(), metadata=about)
        self._hear = hear
        self._end = end
        self._failure = failure
        self._task = asyncio.get_running_loop().create_task(self._read())

    def send(self, message: bytes) -> None:
        self._requests.put_nowait(message)

    def close(self) -> None:
        self._requests.put_nowait(None)
        self._call.cancel()

    async def _messages(self) -> AsyncIterator[bytes]:
        while (message := await self._requests.get()) is not None:
            yield message

    async def _read(self) -> None:
        try:
            async for message in self._call:
                self._hear(message)
        except (self._failure, asyncio.CancelledError):
            pass  # however it ended: who watched looks for itself
        finally:
            self._requests.put_nowait(None)
            self._end()
