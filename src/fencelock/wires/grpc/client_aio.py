"""Share one connection between all tasks of an event loop, for calls and for streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import cast

from ..buffered_protocol import Receiver
from .connection import DEATH_S, PING_OUT, PONG_S, SILENCE_S, Call, Connection, OnEnd, OnMessage
from .hpack import Malformed
from .server import Server
from .status import RpcError, cannot_connect
from .tls import see_agreed

LINGER_S = 0.1  # after a cancellation
LEAVE_S = 10.0  # calls on a connection that was retired have ended by then


class _AioCall(Call):
    """A call that a task waits for."""

    __slots__ = ("due", "future")

    def __init__(self, head: bytes, message: bytes, due: float) -> None:
        super().__init__(head, message)
        self.due = due
        self.future: asyncio.Future[None] | None = None

    def on_end(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class AioClient(Receiver):
    """The connection, and the calls and streams on it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._frames = Connection()
        self._transport: asyncio.Transport | None = None
        self._usable = True
        self._timer: asyncio.TimerHandle | None = None
        self._beat: asyncio.TimerHandle | None = None
        self._pong: asyncio.TimerHandle | None = None
        self._received_at = 0.0
        self._streams: set[Call] = set()

    @property
    def usable(self) -> bool:
        """Whether calls can begin here."""
        return self._usable and not self._frames.leaving

    @property
    def closed(self) -> bool:
        return not self._usable

    async def call(self, head: bytes, message: bytes, within: float) -> bytes:
        """Send a request and return its reply; RpcError when the time is up at the latest.

        A task that is cancelled waits a little for a reply that is on its way: a request that is
        dropped half-way may still be served, after the request that undoes it.
        """
        due = self._loop.time() + within
        call = _AioCall(head, message, due)
        self._frames.open(call)
        self.flush()
        if self._timer is None or self._timer.when() > due:
            self._watch(due)
        cancelled: asyncio.CancelledError | None = None
        while not call.done:
            call.future = self._loop.create_future()
            try:
                await call.future
            except asyncio.CancelledError as error:
                cancelled = error
                call.due = min(call.due, self._loop.time() + LINGER_S)
                self._watch(call.due)
        if cancelled is not None:
            raise cancelled
        return call.result()

    def flush(self) -> None:
        """Send all bytes that are ready to be sent."""
        out = self._frames.out
        if self._transport is not None and out:
            if self._usable:  # asyncio ignores a write that comes too late, uvloop raises
                self._transport.write(b"".join(out))
            out.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transports are of no class of asyncio

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        try:
            self._frames.feed(data)
        except Malformed as error:
            self.close(str(error))
            return
        if self._frames.out:
            self.flush()
        if self._frames.pongs and self._pong is None:
            self._pong = self._loop.call_later(PONG_S, self._answer_pings)
        if self._frames.leaving and self._frames.idle:
            self.close(self._frames.leaving)

    def _answer_pings(self) -> None:
        self._pong = None
        self._frames.out += self._frames.pongs
        self._frames.pongs.clear()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(str(exc or "the server closed the connection"))

    def _watch(self, due: float) -> None:
        """Set the timer to this moment, unless it is set to an earlier one."""
        if self._timer is not None:
            due = min(due, self._timer.when())
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """End the calls whose time is up."""
        self._timer = None
        now = self._loop.time()
        waiting = [call for call in self._frames.under_way() if isinstance(call, _AioCall)]
        for call in waiting:
            if call.due <= now:
                self._frames.cancel(call)
                call.end(RpcError("DEADLINE_EXCEEDED", "no answer in time"))
        self.flush()
        if left := [call.due for call in waiting if not call.done]:
            self._watch(min(left))

    def begin(self, stream: Call) -> None:
        """Open a stream; from now on, ping a server that is silent."""
        self._streams.add(stream)
        self._frames.open(stream)
        self.flush()
        if self._beat is None:
            self._beat = self._loop.call_later(SILENCE_S, self._see_life)

    def send(self, stream: Call, message: bytes) -> None:
        self._frames.send(stream, message)
        self.flush()

    def end(self, stream: Call) -> None:
        self._streams.discard(stream)
        self._frames.cancel(stream)
        self.flush()

    def _see_life(self) -> None:
        self._beat = None
        self._streams = {stream for stream in self._streams if not stream.done}
        silent = self._loop.time() - self._received_at
        if self._streams and silent < SILENCE_S:
            self._beat = self._loop.call_later(SILENCE_S - silent, self._see_life)
        elif self._streams:
            self._frames.out.append(PING_OUT)
            self.flush()
            self._beat = self._loop.call_later(DEATH_S, self._see_death, self._received_at)

    def _see_death(self, received_at: float) -> None:
        if self._received_at == received_at:
            self.close("the server shows no sign of life")
        else:
            self._see_life()

    def retire(self) -> None:
        """Begin no more calls, and close when the last one has ended, or after ``LEAVE_S``."""
        self._frames.leaving = self._frames.leaving or "the connection was left"
        if self._frames.idle:
            self.close()
        else:
            self._loop.call_later(LEAVE_S, self.close)

    def close(self, why: str = "the client is closed") -> None:
        """End the connection, and all calls and streams on it."""
        if self._usable:
            self._usable = False
            for timer in (self._timer, self._beat, self._pong):
                if timer is not None:
                    timer.cancel()
            if self._transport is not None and not self._loop.is_closed():
                self._transport.abort()
            self._frames.fail(why)


class _StreamCall(Call):
    """A call that passes each message to a callback."""

    __slots__ = ("_on_end", "_on_message")

    def __init__(self, head: bytes, on_message: OnMessage, on_end: OnEnd) -> None:
        super().__init__(head, None, goes_on=True)
        self._on_message = on_message
        self._on_end = on_end

    def on_message(self, message: bytes) -> None:
        self._on_message(message)

    def on_end(self) -> None:
        self._on_end()


class AioStream:
    """A stream of messages both ways, until either side ends it."""

    def __init__(
        self,
        client: Awaitable[AioClient],
        head: bytes,
        on_message: OnMessage,
        on_end: OnEnd,
    ) -> None:
        self._call = _StreamCall(head, on_message, on_end)
        self._early: list[bytes] = []
        """Messages to send once there is a connection."""
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


async def connect(server: Server, within: float) -> AioClient:
    """Connect to a server; RpcError says why not."""
    host, port, tls, _ = server
    name = None if tls is None else host
    made = AioClient()
    try:
        async with asyncio.timeout(within):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: made, host, port, ssl=tls, server_hostname=name
            )
        if tls is not None:
            see_agreed(transport.get_extra_info("ssl_object"))
    except OSError as error:  # a timeout is one, and so is an error of TLS
        made.close()
        raise cannot_connect(error) from error
    return made
