"""Fan out in an asyncio program: requests of one iteration of the loop go out together.

All tasks of the loop share the connections. The replies of a task that was cancelled are dropped;
the order of the others is untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from typing import Any

from ...errors import EngineError, Unavailable
from ...world import World
from ..redis.scripts import Script
from ..redis.settings import Node, Settings
from ..redis.wire.connection import CLOSED, cannot_connect
from ..redis.wire.connection_aio import AioStream
from .fanout import Broadcast, Fanout, NodeConnection


class AioNode(NodeConnection):
    """The connection to one node."""

    def __init__(self, index: int, address: Node) -> None:
        super().__init__(index, address)
        self.out: list[bytes] = []
        self.stream: _Stream | None = None
        self.task: asyncio.Task[None] | None = None


class _Stream(AioStream):
    """One connection to a node; replies on an earlier one do not count."""

    def __init__(self, fanout: AioFanout, node: AioNode) -> None:
        super().__init__(node.address)
        self._fanout = fanout
        self._node = node

    async def connect(self, settings: Settings, sentinel: bool = False) -> None:
        await super().connect(settings, sentinel)
        self.write, self.close = self._transport.write, self._transport.abort

    def data_received(self, data: bytes) -> None:
        self._feed(data)
        self._fanout.received(self._node, self, self._gets)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fanout.lost(self._node, self, str(exc or "the server closed it"))


class AioFanout(Fanout[AioNode]):
    """The connections of one client to all nodes, for one purpose."""

    def __init__(self, world: World, settings: Settings, scripts: Sequence[Script]) -> None:
        nodes = [AioNode(index, address) for index, address in enumerate(settings.nodes)]
        super().__init__(settings, scripts, nodes, world.now)
        self._loop = asyncio.get_running_loop()
        self._dirty: list[AioNode] = []
        self._closed = False

    async def _send(self, broadcast: Broadcast, until: float, only: Container[int] | None) -> None:
        if self._closed:
            raise Unavailable(CLOSED)
        self._begin(broadcast, only)
        if not broadcast.settled:
            await self._wait(broadcast, until)
        self._end(broadcast)

    async def _wait(self, broadcast: Broadcast, until: float) -> None:
        awaited: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not awaited.done():
                awaited.set_result(None)

        broadcast.wake = wake
        timer = self._loop.call_later(until - self._now(), wake)
        try:
            await awaited
        except BaseException:
            self._end(broadcast)
            raise
        finally:
            timer.cancel()

    def _write(self, node: AioNode, payload: bytes) -> None:
        if not self._dirty:
            self._loop.call_soon(self._flush)
        if not node.out:
            self._dirty.append(node)
        node.out.append(payload)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for node in dirty:
            out, node.out = node.out, []
            if node.stream is not None:
                node.stream.write(out[0] if len(out) == 1 else b"".join(out))

    def received(self, node: AioNode, stream: _Stream, gets: Callable[[], Any]) -> None:
        """Handle the replies that have come on a connection."""
        if node.stream is stream:
            try:
                self._replied(node, gets)
            except ConnectionError as error:
                self.lost(node, stream, str(error))

    def lost(self, node: AioNode, stream: _Stream, why: str) -> None:
        """Handle the end of a connection."""
        stream.close()
        if node.stream is stream:
            node.stream, node.out = None, []
            if node in self._dirty:
                self._dirty.remove(node)
            self._broken(node, why)

    def _start_connecting(self, node: AioNode) -> None:
        node.connecting = True
        node.task = self._loop.create_task(self._connect(node), name="fencelock-connect")

    async def _connect(self, node: AioNode) -> None:
        stream = _Stream(self, node)
        try:
            await stream.connect(self._settings)
        except EngineError as error:
            self._unreachable(node, error)
        except Exception as error:  # whatever it is, the node cannot be reached
            self._unreachable(node, cannot_connect(node.address, error))
        else:
            node.stream = stream
            if self._closed:
                stream.close()
            else:
                self._connected(node)

    async def close(self) -> None:
        self._close()

    def close_nowait(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._close)
        except RuntimeError:
            pass  # the loop is closed, and its connections with it

    def _close(self) -> None:
        self._closed = True
        self._give_up()
        for node in self._nodes:
            if node.task is not None:
                node.task.cancel()
            if node.stream is not None:
                self.lost(node, node.stream, "closed")
