"""The wire of asyncio programs: one connection per node for all tasks, and one for the keeper.

All who need a connection that is not there yet wait for the same one. The inbox is a connection by
itself, because it only listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...errors import OutcomeUnknown, Unavailable
from .link_aio import Link
from .replies import items
from .settings import Node, Settings
from .wire import CLOSED, Lane, packed, time_up


class AioLine:
    """The quick way to one node: what is awaited is the future itself."""

    direct = None

    def __init__(self, wire: AioWire, node: Node) -> None:
        self._wire = wire
        self._node = node
        self._link: Link | None = None

    def ask(self, payload: bytes, request_timeout: float) -> Awaitable[Any]:
        link = self._link
        if link is None or not link.usable:
            return self._reach(payload, request_timeout)
        return link.ask(payload, 0, request_timeout)

    async def _reach(self, payload: bytes, request_timeout: float) -> Any:
        self._link = await self._wire.link(self._node, "main", request_timeout)
        return await self._link.ask(payload, 0, request_timeout)


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
        self, node: Node, payload: bytes, count: int, request_timeout: float, lane: Lane
    ) -> Sequence[Any]:
        link = await self.link(node, lane, request_timeout)
        replies: list[Any] = await link.ask(payload, count, request_timeout)
        return replies

    def line(self, node: Node) -> AioLine:
        return AioLine(self, node)

    async def link(self, node: Node, lane: Lane, request_timeout: float) -> Link:
        """The connection to a node; made if there is none, within so many seconds."""
        link = self._links.get((node, lane))
        if link is None or not link.usable:
            link = await self._connect(node, lane, request_timeout)
        return link

    async def _connect(self, node: Node, lane: Lane, request_timeout: float) -> Link:
        """All who need the same connection wait for one; that one of them leaves ends nothing.

        One that was begun before we came, perhaps while the server was silent, may fail: then
        there is time for another.
        """
        key: tuple[Node, Lane] = (node, lane)
        until = self._loop.time() + request_timeout
        while True:
            if self._closed:
                raise Unavailable(CLOSED)
            task = self._connecting.get(key)
            began = task is None
            if task is None:
                task = self._connecting[key] = self._begin(Link(node))
                task.add_done_callback(lambda done: self._connected(key, done))
            await asyncio.wait({task}, timeout=until - self._loop.time())
            if not task.done():
                raise time_up(node)
            if began or task.cancelled() or task.exception() is None:
                return task.result()
            if self._connecting.get(key) is task or self._loop.time() >= until:
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
            await link.ask(payload, 1, self._settings.request_timeout)
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

    def close_nowait(self) -> None:
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
