"""The wire for asyncio: one connection for each member and lane, shared by all tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ...wires.grpc.call import Metadata, Refused, cannot_connect
from ...wires.grpc.line_aio import Line, connect
from ...wires.grpc.server import Server
from ...wires.grpc.stream_aio import Stream
from ...wires.grpc.tls import Tls, context_of
from .link import WORK

CONNECT_S = 3.0  # for a stream


class AioWire:
    """Connections to the members of a cluster, each made when it is first needed."""

    def __init__(self, members: Sequence[str], tls: Tls | None) -> None:
        context = None if tls is None else context_of(tls)
        self._servers = [Server.at(member, context) for member in members]
        self._loop = asyncio.get_running_loop()
        self._lines: dict[tuple[int, int], Line] = {}
        self._left: set[Line] = set()
        """Those that are used no more, while something on them may still go on."""
        self._connecting: dict[tuple[int, int], asyncio.Task[Line]] = {}
        self._closed = False

    async def call(
        self, member: int, lane: int, method: str, request: bytes, within: float, about: Metadata
    ) -> bytes:
        line = self._lines.get((member, lane))
        head = self._servers[member].heads.of(method, within, about)
        if line is None or not line.usable:
            due = self._loop.time() + within
            line = await self._connected(member, lane, within)
            within = max(due - self._loop.time(), 0.01)
        return await line.call(head, request, within)

    async def _connected(self, member: int, lane: int, within: float) -> Line:
        """A connection, which those who come meanwhile share; they may be cancelled, it goes on."""
        place = (member, lane)
        line = self._lines.get(place)
        if line is not None and line.usable:
            return line
        if self._closed:
            raise Refused("UNAVAILABLE", "the client is closed", unsent=True)
        task = self._connecting.get(place)
        if task is None:
            task = self._connecting[place] = self._loop.create_task(self._connect(place, within))
            task.add_done_callback(lambda task: self._connected_or_not(place, task))
        done, _ = await asyncio.wait((task,), timeout=within)
        if not done or task.cancelled():
            raise cannot_connect(TimeoutError())
        return task.result()

    def _connected_or_not(self, place: tuple[int, int], task: asyncio.Task[Line]) -> None:
        del self._connecting[place]
        if not task.cancelled():
            task.exception()  # looked at: all who waited for it may have been cancelled

    async def _connect(self, place: tuple[int, int], within: float) -> Line:
        line = await connect(self._servers[place[0]], within)
        self.leave(*place)
        self._lines[place] = line
        if self._closed:
            line.close()
        return line

    def stream(
        self,
        member: int,
        method: str,
        about: Metadata,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> Stream:
        head = self._servers[member].heads.of(method, None, about)
        return Stream(self._connected(member, WORK, CONNECT_S), head, hear, end)

    def leave(self, member: int, lane: int) -> None:
        self._left = {line for line in self._left if not line.closed}
        line = self._lines.pop((member, lane), None)
        if line is not None:
            line.retire()
            self._left.add(line)

    async def close(self) -> None:
        self._close()
        if self._connecting:
            await asyncio.wait(list(self._connecting.values()))
        await asyncio.sleep(0)  # transports close in the next turn of the loop

    def _close(self) -> None:
        self._closed = True
        for task in self._connecting.values():
            task.cancel()
        for line in (*self._lines.values(), *self._left):
            line.close()
        self._lines.clear()
        self._left.clear()

    def close_nowait(self) -> None:
        """Close in the background, if the loop still runs."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close)
