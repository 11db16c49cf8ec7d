"""Rounds for asyncio programs: what is asked within one turn of the loop goes out together.

The connections are shared by all tasks of the loop. A task that is cancelled leaves its replies to
nobody; the order of the others is untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from typing import Any

import hiredis

from ...errors import Unavailable
from ...wires.buffered_protocol import Receiver
from .link_aio import take_over, unconnected
from .round import Ask, Line, Round
from .rounds import Rounds
from .scripts import Script
from .settings import Node, Settings
from .wire import CLOSED, cannot_connect


class AioLine(Line):
    """The way to one node."""

    def __init__(self, place: int, node: Node) -> None:
        super().__init__(place, node)
        self.out: list[bytes] = []
        self.stream: _Stream | None = None
        self.task: asyncio.Task[None] | None = None


class _Stream(Receiver):
    """One connection of a line; an old one has nothing to say any more."""

    def __init__(self, rounds: AioRounds, line: AioLine, connection: Any) -> None:
        self._rounds = rounds
        self._line = line
        self._reader = hiredis.Reader()
        self._gets, self._feed = self._reader.gets, self._reader.feed
        self._writer = take_over(connection, self)
        transport: asyncio.WriteTransport = self._writer.transport
        self.write, self.close = transport.write, transport.abort

    def data_received(self, data: bytes) -> None:
        self._feed(data)
        self._rounds.received(self._line, self, self._gets)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rounds.lost(self._line, self, str(exc or "the server closed it"))


class AioRounds(Rounds[AioLine]):
    """The connections of one client to all nodes, for one lane."""

    def __init__(
        self, settings: Settings, scripts: Sequence[Script], now: Callable[[], float]
    ) -> None:
        lines = [AioLine(place, node) for place, node in enumerate(settings.nodes)]
        super().__init__(settings, scripts, lines, now)
        self._loop = asyncio.get_running_loop()
        self._dirty: list[AioLine] = []
        self._closed = False

    async def ask(
        self,
        ask: Ask | bytes,
        cast: Callable[[Any], bool],
        until: float,
        kept_until: float = 0.0,
        places: Container[int] | None = None,
    ) -> Round:
        if self._closed:
            raise Unavailable(CLOSED)
        round = Round(len(self._lines), ask, cast, kept_until)
        self._begin(round, places)
        if not round.settled:
            await self._wait(round, until)
        self._end(round)
        return round

    async def _wait(self, round: Round, until: float) -> None:
        awaited: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not awaited.done():
                awaited.set_result(None)

        round.wake = wake
        timer = self._loop.call_later(until - self._now(), wake)
        try:
            await awaited
        except BaseException:
            self._end(round)
            raise
        finally:
            timer.cancel()

    def _write(self, line: AioLine, payload: bytes) -> None:
        if not self._dirty:
            self._loop.call_soon(self._flush)
        if not line.out:
            self._dirty.append(line)
        line.out.append(payload)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for line in dirty:
            out, line.out = line.out, []
            if line.stream is not None:
                line.stream.write(out[0] if len(out) == 1 else b"".join(out))

    def received(self, line: AioLine, stream: _Stream, gets: Callable[[], Any]) -> None:
        """Replies have come on a connection."""
        if line.stream is stream:
            try:
                self._heard(line, gets)
            except ConnectionError as error:
                self.lost(line, stream, str(error))

    def lost(self, line: AioLine, stream: _Stream, why: str) -> None:
        """A connection is gone."""
        stream.close()
        if line.stream is stream:
            line.stream, line.out = None, []
            if line in self._dirty:
                self._dirty.remove(line)
            self._broken(line, why)

    def _dial(self, line: AioLine) -> None:
        line.task = self._loop.create_task(self._connect(line), name="fencelock-connect")

    async def _connect(self, line: AioLine) -> None:
        connection = unconnected(self._settings, line.node)
        try:
            await connection.connect()
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if not isinstance(error, Exception):
                raise  # cancelled: we are closed
            self._unreachable(line, cannot_connect(line.node, error))
            return
        line.stream = _Stream(self, line, connection)
        if self._closed:
            line.stream.close()
        else:
            self._connected(line)

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
        for line in self._lines:
            if line.task is not None:
                line.task.cancel()
            if line.stream is not None:
                self.lost(line, line.stream, "closed")
