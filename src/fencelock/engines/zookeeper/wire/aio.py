"""The wire for asyncio: the event loop reads and writes, and there is no thread at all."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from ....errors import OutcomeUnknown, Unavailable
from ....wires.buffered_protocol import Receiver
from ....world import World
from . import messages
from .connection import PINGS, RETRY_S, TRIES, Settings, Wire
from .messages import Flight, Request


class _Line(Receiver):
    """One connection: hands what it hears to its wire."""

    def __init__(self, wire: AioWire) -> None:
        self.wire = wire
        self.transport: asyncio.Transport | None = None
        self.welcome: asyncio.Future[None] = wire.loop.create_future()
        self.broken: asyncio.Future[None] = wire.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are of no class of asyncio

    def data_received(self, data: bytes) -> None:
        if not self.broken.done():
            try:
                self.wire.hear(data)
            except Exception as error:
                self.fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(exc or ConnectionResetError("the server closed the connection"))

    def fail(self, error: Exception) -> None:
        for future in (self.welcome, self.broken):
            if not future.done():
                future.set_exception(error)
                future.exception()  # looked at: perhaps nobody waits for it any more
        if self.transport is not None:
            self.transport.abort()


class AioWire(Wire):
    """One session, shared by the tasks of a loop."""

    def __init__(self, settings: Settings, world: World) -> None:
        super().__init__(settings, world)
        self.loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._tried = asyncio.Event()  # every member once
        self._rouse = asyncio.Event()
        self._line: _Line | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._flights: deque[tuple[Flight, float]] = deque()
        self._greeted_at = 0.0
        self._sent_at = 0.0
        self._unheard_since: float | None = None

    async def open(self) -> None:
        self.tls()
        self._start()
        await _set_within(self._tried, self.round)
        if not self._ready.is_set():
            await self.close(False)
            raise self._why

    async def ready(self) -> None:
        if not self._ready.is_set():
            self._rouse.set()
            if self._closed or not await _set_within(self._ready, self.respite):
                raise Unavailable(f"no server of the ensemble answers ({self._why})")

    async def call(self, *wanted: Request, session: int = 0) -> list[Any]:
        if not wanted:
            return []
        for _ in range(TRIES):
            if not self._ready.is_set():
                await self.ready()
            if (line := self._line) is not None:
                break
        else:
            raise Unavailable(
                "the connection to ZooKeeper breaks again and again; nothing was sent"
            )
        self._see(session)
        landed: asyncio.Future[None] = self.loop.create_future()
        flight = Flight(len(wanted), lambda: _settle(landed))
        sent_at = self._now()
        self._push(line, self._link.ask(wanted, flight))
        self._expect(flight, sent_at)
        await landed
        if flight.lost:
            raise self._unanswered(wanted)
        return self._answered(wanted, flight.answers, sent_at)

    def _expect(self, flight: Flight, sent_at: float) -> None:
        """Wait for an answer no longer than ``request_timeout``. One timer does for all calls."""
        flights = self._flights
        while flights and flights[0][0].is_over:
            flights.popleft()
        flights.append((flight, sent_at))
        if self._limit is None:
            self._limit = self.loop.call_later(self.request_timeout, self._look_back)

    def _look_back(self) -> None:
        self._limit = None
        late = self._now() - self.request_timeout
        for flight, sent_at in self._flights:
            if flight.is_over:
                continue
            if sent_at > late:
                self._limit = self.loop.call_later(sent_at - late, self._look_back)
                return
            if self._line is not None:
                self._line.fail(TimeoutError("the server is silent"))
            flight.lose()

    async def close(self, end: bool) -> None:
        if end and self._ready.is_set():
            try:
                await self.call(messages.CLOSE)
            except (Unavailable, OutcomeUnknown):
                pass  # it ends by its timeout
        self.close_nowait()
        if self._task is not None:
            await asyncio.wait({self._task})

    def close_nowait(self) -> None:
        self._closed = True
        try:  # a client may be collected in any thread
            self.loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            pass  # the loop is closed, and all connections with it

    def _end(self) -> None:
        if self._line is not None:
            self._line.fail(ConnectionAbortedError("closed by us"))
        if self._task is not None:
            self._task.cancel()
        if self._limit is not None:
            self._limit.cancel()

    def _start(self) -> None:
        self._task = self.loop.create_task(self._run(), name="fencelock-zookeeper")

    async def _run(self) -> None:
        """Try one member after the other until one takes us.

        Then this ends: a task that went on would be cancelled when the program's loop ends, and
        those who release their locks at that moment need the connection.
        """
        while not self._closed:
            for _ in range(len(self._hosts)):
                host = self._next_host()
                try:
                    await self._connect(host)
                    return
                except Exception as error:
                    self._failed(host, error)
                    self._leave()
                except BaseException:
                    self._leave()
                    raise
                if self._closed:
                    return
            self._tried.set()
            await _set_within(self._rouse, RETRY_S)
            self._rouse.clear()

    async def _connect(self, host: tuple[str, int]) -> None:
        """Connect to one member; from its welcome on, the end of the connection is seen to."""
        context = self.tls()
        async with asyncio.timeout(self.hurry):
            _, line = await self.loop.create_connection(
                lambda: _Line(self),
                *host,
                ssl=context,
                server_hostname=host[0] if context else None,
            )
        self._line = line
        self._unheard_since = None
        self._greeted_at = self._now()
        self._push(line, self._link.greet())
        self._look(line)
        await line.welcome
        line.broken.add_done_callback(lambda broken: self._broke(host, broken))

    def _broke(self, host: tuple[str, int], broken: asyncio.Future[None]) -> None:
        error = broken.exception()
        if isinstance(error, Exception):
            self._failed(host, error)
        self._leave()
        if not self._closed:
            self._start()

    def hear(self, data: bytes) -> None:
        """Take what the server sent."""
        self._unheard_since = None
        asked = self._link.receive(data)
        if asked and self._line is not None:
            self._push(self._line, asked)
        if self._link.welcomed and not self._ready.is_set():
            if self._link.fresh:
                self.contact_at = self._greeted_at
            self._ready.set()
            self._tried.set()
            if self._line is not None:
                _settle(self._line.welcome)

    def _push(self, line: _Line, data: bytes) -> None:
        self._sent_at = now = self._now()
        if self._unheard_since is None:
            self._unheard_since = now
        assert line.transport is not None
        if not line.broken.done():  # uvloop raises where asyncio passes over what comes too late
            line.transport.write(data)

    def _look(self, line: _Line) -> None:
        """Ping when it is time; leave a server that is silent; look again before either."""
        now = self._now()
        if self._unheard_since is not None and now >= self._unheard_since + self.allowed:
            line.fail(TimeoutError("the server is silent"))
            return
        if self._link.welcomed and now >= self._sent_at + self.timeout / PINGS:
            self._push(line, self._link.ping())
        due = self._sent_at + self.timeout / PINGS
        if self._unheard_since is not None:
            due = min(due, self._unheard_since + self.allowed)
        self._timer = self.loop.call_later(max(0.0, due - now), self._look, line)

    def _leave(self) -> None:
        if self._ready.is_set():
            self._broken_at = self._now()
        self._ready.clear()
        if self._timer is not None:
            self._timer.cancel()
        line, self._line = self._line, None
        self._link.break_off()
        if line is not None:
            line.fail(ConnectionAbortedError("left"))
            line.broken.exception()  # looked at


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, and look not at the task that does: see ``plain`` of an engine."""
    if event.is_set():
        return True
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
    return event.is_set()


def _settle(landed: asyncio.Future[None]) -> None:
    if not landed.done():
        landed.set_result(None)
