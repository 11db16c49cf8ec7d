"""The wire of asyncio programs: one connection per node for all tasks, and one for the keeper.

What is asked within one turn of the event loop goes out in one write; replies come in order. So
hundreds of tasks share a connection, and no lock is waited for. A task that is cancelled leaves its
reply to nobody: the order of the others is untouched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import hiredis
import redis.asyncio.connection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ...errors import OutcomeUnknown, Unavailable
from .replies import items
from .settings import Node, Settings
from .wire import CLOSED, Lane, arguments, cannot_connect, connection_class, packed

_Pending = tuple["asyncio.Future[Any]", int, float]
JOINED_MAX = 32  # the server begins with so many while we make the next ones


class Link(asyncio.Protocol):
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
        kind = connection_class(redis.asyncio.connection, settings)
        made = kind(
            **arguments(settings, self.node, sentinel),
            retry=Retry(NoBackoff(), 0),
            retry_on_error=[],
        )
        try:
            await made.connect()
        except (RedisError, OSError) as error:
            await made.disconnect(nowait=True)
            raise cannot_connect(self.node, error) from error
        self._writer = made._writer  # kept: it would close the transport when it is collected
        self._transport: asyncio.WriteTransport = made._writer.transport
        made._reader = made._writer = None  # redis-py would close what is ours now
        self._transport.set_protocol(self)
        self.usable = True
        return self

    def ask(self, payload: bytes, count: int, patience: float) -> asyncio.Future[Any]:
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
        due = self._loop.time() + patience
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


class AioLine:
    """The quick way to one node: what is awaited is the future itself."""

    direct = None

    def __init__(self, wire: AioWire, node: Node) -> None:
        self._wire = wire
        self._node = node
        self._link: Link | None = None

    def ask(self, payload: bytes, patience: float) -> Awaitable[Any]:
        link = self._link
        if link is None or not link.usable:
            return self._reach(payload, patience)
        return link.ask(payload, 0, patience)

    async def _reach(self, payload: bytes, patience: float) -> Any:
        self._link = await self._wire.link(self._node, "main")
        return await self._link.ask(payload, 0, patience)


class AioWire:
    """All connections of one client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._links: dict[tuple[Node, Lane], Link] = {}
        self._connecting: dict[tuple[Node, Lane], asyncio.Task[Link]] = {}
        self._sentinels = settings.nodes if settings.topology == "sentinel" else ()
        self._closed = False

    async def call(
        self, node: Node, payload: bytes, count: int, patience: float, lane: Lane
    ) -> Sequence[Any]:
        replies: list[Any] = await (await self.link(node, lane)).ask(payload, count, patience)
        return replies

    def line(self, node: Node) -> AioLine:
        return AioLine(self, node)

    async def link(self, node: Node, lane: Lane) -> Link:
        """The connection to a node; made if there is none."""
        link = self._links.get((node, lane))
        if link is None or not link.usable:
            link = await self._connect(node, lane)
        return link

    async def _connect(self, node: Node, lane: Lane) -> Link:
        """All who need the same connection wait for one; that one of them leaves ends nothing."""
        if self._closed:
            raise Unavailable(CLOSED)
        key = (node, lane)
        task = self._connecting.get(key)
        if task is None:
            task = self._connecting[key] = self._begin(Link(node))
            task.add_done_callback(lambda done: self._connected(key, done))
        await asyncio.wait({task})
        return task.result()

    def _begin(self, link: Link) -> asyncio.Task[Link]:
        """Connect in a task of its own: redis-py may swallow the cancellation of ours."""
        work = link.connect(self._settings, link.node in self._sentinels)
        return self._loop.create_task(work, name="fencelock-connect")

    def _connected(self, key: tuple[Node, Lane], task: asyncio.Task[Link]) -> None:
        self._connecting.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().close()
        else:
            self._links[key] = task.result()

    async def subscribe(self, node: Node, channel: str) -> AioInbox:
        link = AioInbox(node)
        task = self._begin(link)
        try:
            await asyncio.wait({task})
            task.result()
        except asyncio.CancelledError:
            task.add_done_callback(_close_quietly)
            raise
        try:
            payload = packed("SUBSCRIBE", channel)
            await link.ask(payload, 1, self._settings.patience)
        except BaseException as error:
            link.close()
            if isinstance(error, OutcomeUnknown):
                raise Unavailable(str(error)) from error
            raise
        return link

    def drop(self, node: Node) -> None:
        for key in [key for key in self._links if key[0] == node]:
            self._links.pop(key).close()

    async def close(self) -> None:
        self._closed = True
        self._close_links()

    def abandon(self) -> None:
        self._closed = True
        try:
            self._loop.call_soon_threadsafe(self._close_links)
        except RuntimeError:
            pass  # the loop is closed, and its connections with it

    def _close_links(self) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()


def _close_quietly(task: asyncio.Task[Link]) -> None:
    """Nobody wants the connection any more, if it was made at all."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


class AioInbox(Link):
    """A connection that, after its first reply, only listens."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self._messages: list[bytes] = []
        self._say: Callable[[bytes], object] = self._messages.append
        self.broken = ""
        self._awaited: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        if self._pending:
            return super().data_received(data)
        self._reader.feed(data)
        while (reply := self._gets()) is not False:
            said = items(reply)
            if said and said[0] == b"message":
                self._say(said[2])
        if self._messages:
            self.nudge()
        return None

    def prompt(self, hear: Callable[[bytes], None]) -> None:
        self._say = hear  # whoever waits is woken one turn of the loop earlier

    async def receive(self, seconds: float) -> list[bytes]:
        if not self._messages and not self.broken:
            self._awaited = self._loop.create_future()
            timer = self._loop.call_later(max(0.0, seconds), self.nudge)
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

    def nudge(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def fail(self, why: str) -> None:
        self.broken = why
        super().fail(why)
        self.nudge()
