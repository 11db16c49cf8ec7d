"""One connection that all tasks of an event loop share.

Requests of one iteration of the loop go out in one write; replies come in order. So hundreds of
tasks share a connection, and none waits for a lock. The reply of a task that was cancelled is
dropped: the order of the others is untouched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis

# First, as in a blocking client: modules of redis-py import each other, and two threads that import
# them in different orders fail with an import deadlock (seen with 8.1).
import redis.connection  # isort: skip  # pyright: ignore[reportUnusedImport]
import redis.asyncio.connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ....errors import OutcomeUnknown, Unavailable
from ....wires.buffered_protocol import Receiver
from ..errors import items
from ..settings import Node, Settings, where
from .connection import PING, cannot_connect, new_connection

_Pending = tuple["asyncio.Future[Any]", int, float]
JOINED_MAX = 32  # so many are sent at once: the server serves them while we make the next ones


class AioStream(Receiver):
    """A transport that redis-py has connected and logged in, with a parser for its replies.

    The transport is taken over from redis-py, by its private ``_reader`` and ``_writer`` (read in
    redis-py 8.1).
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._reader = hiredis.Reader()
        self._gets, self._feed = self._reader.gets, self._reader.feed

    async def connect(self, settings: Settings, sentinel: bool = False) -> None:
        """Let redis-py connect and log in, and take its transport over."""
        made = new_connection(
            redis.asyncio.connection, Retry(NoBackoff(), 0), settings, self.node, sentinel
        )
        try:
            await made.connect()
            if made._writer.is_closing() or made._reader.at_eof():  # only redis-py noticed
                raise ConnectionResetError("the server closed it")
        except (Exception, asyncio.CancelledError) as error:
            await made.disconnect(nowait=True)
            # uvloop raises RuntimeError for a write after the connection was lost.
            if isinstance(error, (RedisError, OSError, RuntimeError)):
                raise cannot_connect(self.node, error) from error
            raise
        self._writer = made._writer  # kept: it would close its transport when it is collected
        made._reader = made._writer = None  # redis-py would close the transport
        self._transport: asyncio.WriteTransport = self._writer.transport
        self._writer.transport.set_protocol(self)


class AioConnection(AioStream):
    """A connection whose requests are pipelined, for all tasks."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.usable = False
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._pending: deque[_Pending] = deque()
        self._replies: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None

    async def connect(self, settings: Settings, sentinel: bool = False) -> None:
        await super().connect(settings, sentinel)
        self.usable = True

    def request(self, payload: bytes, count: int, request_timeout: float) -> asyncio.Future[Any]:
        """Send with the other requests of this iteration. The future gets a list of ``count``
        replies; for 0 one reply by itself."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._pending and not self._out and self.usable:
            self._transport.write(payload)  # there is nothing to send it with
        else:
            if not self._out:
                self._loop.call_soon(self._flush)
            self._out.append(payload)
            if len(self._out) == JOINED_MAX:
                self._flush()
        due = self._loop.time() + request_timeout
        self._pending.append((future, count, due))
        if self._timer is None or self._timer.when() > due:
            self._watch(due)
        return future

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self.usable and out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def data_received(self, data: bytes) -> None:
        self._feed(data)
        gets, pending, replies = self._gets, self._pending, self._replies
        while (reply := gets()) is not False:
            if not pending:
                return self.fail("it sent a reply without a request")
            if pending[0][1] == 0:
                future = pending.popleft()[0]
                if not future.done():
                    future.set_result(reply)
                continue
            replies.append(reply)
            if len(replies) == pending[0][1]:
                future = pending.popleft()[0]
                if not future.done():
                    future.set_result(replies)
                replies = self._replies = []
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(str(exc or "the server closed it"))

    def fail(self, why: str) -> None:
        """Close the connection; requests without a reply end with OutcomeUnknown."""
        self.close()
        pending, self._pending = self._pending, deque()
        for future, _, _ in pending:
            if not future.done():
                text = f"the connection to {where(self.node)} broke ({why})"
                future.set_exception(OutcomeUnknown(text))
                future.exception()  # retrieved here: the task may have been cancelled

    def _watch(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """Close the connection if a reply is overdue: then all later ones would be."""
        self._timer = None
        if self._pending:
            due = min(pending[2] for pending in self._pending)
            if due <= self._loop.time():
                self.fail("no answer in time")
            else:
                self._watch(due)

    def close(self) -> None:
        self.usable = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._loop.is_closed():
            self._transport.abort()


class AioSubscription(AioConnection):
    """A connection that, after its first reply, only receives published messages."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._messages: list[bytes] = []
        self._handle: Callable[[bytes], object] = self._messages.append
        self.broken = ""
        self.unanswered = False
        self._awaited: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        if self._pending:
            return super().data_received(data)
        self.unanswered = False
        self._feed(data)
        while (reply := self._gets()) is not False:
            message = items(reply)
            if message and message[0] == b"message":
                self._handle(message[2])
        if self._messages:
            self.interrupt()
        return None

    def on_message(self, handle: Callable[[bytes], None]) -> None:
        self._handle = handle  # a waiter is woken one iteration of the loop earlier

    async def receive(self, seconds: float) -> list[bytes]:
        if not self._messages and not self.broken:
            self._awaited = self._loop.create_future()
            timer = self._loop.call_later(max(0.0, seconds), self.interrupt)
            try:
                await self._awaited
            finally:
                timer.cancel()
                self._awaited = None
        messages = self._messages[:]
        self._messages.clear()
        if self.broken and not messages:
            raise Unavailable(f"the inbox was cut off ({self.broken})")
        return messages

    def ping(self) -> None:
        if self.usable:
            self.unanswered = True
            self._transport.write(PING)

    def interrupt(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def fail(self, why: str) -> None:
        self.broken = why
        super().fail(why)
        self.interrupt()
