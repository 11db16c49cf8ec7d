"""One connection that all tasks of an event loop share.

What is asked within one turn of the loop goes out in one write; replies come in order. So hundreds
of tasks share a connection, and no lock is waited for. A task that is cancelled leaves its reply to
nobody: the order of the others is untouched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import hiredis
import redis.asyncio.connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ...errors import OutcomeUnknown
from ...wires.buffered_protocol import Receiver
from .settings import Node, Settings
from .wire import cannot_connect, new_connection

_Pending = tuple["asyncio.Future[Any]", int, float]
JOINED_MAX = 32  # the server begins with so many while we make the next ones


def unconnected(settings: Settings, node: Node, sentinel: bool = False) -> Any:
    """What redis-py will connect and log in, once it is asked to."""
    return new_connection(redis.asyncio.connection, Retry(NoBackoff(), 0), settings, node, sentinel)


def take_over(connection: Any, protocol: Receiver) -> Any:
    """Have what redis-py has connected talk to us from now on.

    The writer is to be kept: it would close its transport when it is collected.
    """
    writer = connection._writer
    connection._reader = connection._writer = None  # redis-py would close what is ours now
    writer.transport.set_protocol(protocol)
    return writer


class Link(Receiver):
    """One connection, used by all who have something to ask."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.usable = False
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._gets = self._reader.gets
        self._out: list[bytes] = []
        self._pending: deque[_Pending] = deque()
        self._replies: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None

    async def connect(self, settings: Settings, sentinel: bool) -> Link:
        """Let redis-py connect and log in, and take its transport over."""
        made = unconnected(settings, self.node, sentinel)
        try:
            await made.connect()
        except (RedisError, OSError) as error:
            await made.disconnect(nowait=True)
            raise cannot_connect(self.node, error) from error
        self._writer = take_over(made, self)
        self._transport: asyncio.WriteTransport = self._writer.transport
        self.usable = True
        return self

    def ask(self, payload: bytes, count: int, request_timeout: float) -> asyncio.Future[Any]:
        """Send with the others of this turn; the future has the replies, or for 0 a bare one."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._pending and not self._out and self.usable:
            self._transport.write(payload)  # nobody to be joined with
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
        self._reader.feed(data)
        gets, pending, replies = self._gets, self._pending, self._replies
        while (reply := gets()) is not False:
            if not pending:
                return self.fail("it said something that nobody asked for")
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
        """Let go of the connection; whoever waits for a reply does not know what became of it."""
        self.close()
        pending, self._pending = self._pending, deque()
        for future, _, _ in pending:
            if not future.done():
                text = f"the connection to {self.node[0]}:{self.node[1]} broke ({why})"
                future.set_exception(OutcomeUnknown(text))
                future.exception()  # looked at: the task may have been cancelled

    def _watch(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        """See whether a reply is overdue: then all that come after it would be."""
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
