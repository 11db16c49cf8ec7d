"""A connection for asyncio: the event loop reads and writes, without any thread."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from ....errors import OutcomeUnknown, Unavailable
from ....wires.buffered_protocol import Receiver
from ....world import World
from . import messages
from .connection import RETRY_S, TRIES, Connection, Settings
from .messages import Batch, Request


class _Protocol(Receiver):
    """The asyncio protocol of a connection to one member."""

    def __init__(self, connection: AioConnection) -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.connected: asyncio.Future[None] = connection.loop.create_future()
        self.broken: asyncio.Future[None] = connection.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are of no class of asyncio

    def data_received(self, data: bytes) -> None:
        if not self.broken.done():
            try:
                self.connection.receive(data)
            except Exception as error:
                self.fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(exc or ConnectionResetError("the server closed the connection"))

    def fail(self, error: Exception) -> None:
        for future in (self.connected, self.broken):
            if not future.done():
                future.set_exception(error)
                future.exception()  # retrieved, as perhaps no task awaits it
        if self.transport is not None:
            self.transport.abort()


class AioConnection(Connection):
    """One session, shared by the tasks of a loop."""

    def __init__(self, settings: Settings, world: World) -> None:
        super().__init__(settings, world)
        self.loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        self._all_tried = asyncio.Event()  # every member once
        self._retry_now = asyncio.Event()
        self._protocol: _Protocol | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._request_timer: asyncio.TimerHandle | None = None
        self._batches: deque[tuple[Batch, float]] = deque()

    async def open(self) -> None:
        self._tls()
        self._connect()
        await _set_within(self._all_tried, self.open_timeout)
        if not self._ready.is_set():
            await self.close(False)
            raise self._error

    async def ready(self) -> None:
        if not self._ready.is_set():
            self._retry_now.set()
            if self._closed or not await _set_within(self._ready, self.reconnect_timeout):
                raise Unavailable(f"no server of the ensemble answers ({self._error})")

    async def call(self, *requests: Request, session: int = 0) -> list[Any]:
        if not requests:
            return []
        for _ in range(TRIES):
            if not self._ready.is_set():
                await self.ready()
            if (protocol := self._protocol) is not None:
                break
        else:
            raise Unavailable(
                "the connection to ZooKeeper breaks again and again; nothing was sent"
            )
        self._require_session(session)
        done: asyncio.Future[None] = self.loop.create_future()
        batch = Batch(len(requests), lambda: _resolve(done))
        sent_at = self._now()
        self._write(protocol, self._session.send(requests, batch))
        self._limit(batch, sent_at)
        await done
        if batch.lost:
            raise self._no_reply(requests)
        return self._checked(requests, batch.replies, sent_at)

    def _limit(self, batch: Batch, sent_at: float) -> None:
        """Have a batch fail after ``request_timeout``. One timer serves all calls."""
        batches = self._batches
        while batches and batches[0][0].is_done:
            batches.popleft()
        batches.append((batch, sent_at))
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(self.request_timeout, self._fail_late)

    def _fail_late(self) -> None:
        self._request_timer = None
        late = self._now() - self.request_timeout
        for batch, sent_at in self._batches:
            if batch.is_done:
                continue
            if sent_at > late:
                self._request_timer = self.loop.call_later(sent_at - late, self._fail_late)
                return
            if self._protocol is not None:
                self._protocol.fail(TimeoutError("the server is silent"))
            batch.lose()

    async def close(self, end_session: bool) -> None:
        if end_session and self._ready.is_set():
            try:
                await self.call(messages.CLOSE)
            except (Unavailable, OutcomeUnknown):
                pass  # the session expires by its timeout
        self.close_nowait()
        if self._connecting is not None:
            await asyncio.wait({self._connecting})

    def close_nowait(self) -> None:
        self._closed = True
        try:  # a client may be collected in any thread
            self.loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            pass  # the loop is closed, and all connections with it

    def _end(self) -> None:
        if self._protocol is not None:
            self._protocol.fail(ConnectionAbortedError("closed by us"))
        if self._connecting is not None:
            self._connecting.cancel()
        if self._request_timer is not None:
            self._request_timer.cancel()

    # Connecting

    def _connect(self) -> None:
        self._connecting = self.loop.create_task(self._try_members(), name="fencelock-zookeeper")

    async def _try_members(self) -> None:
        """Try one member after the other until one accepts the session.

        Then this ends: a task that went on would be cancelled when the program's loop ends, and
        tasks that release their locks at that moment need the connection.
        """
        while not self._closed:
            for _ in range(len(self._hosts)):
                host = self._next_host()
                try:
                    await self._try(host)
                    return
                except Exception as error:
                    self._member_failed(host, error)
                    self._disconnect()
                except BaseException:
                    self._disconnect()
                    raise
                if self._closed:
                    return
            self._all_tried.set()
            await _set_within(self._retry_now, RETRY_S)
            self._retry_now.clear()

    async def _try(self, host: tuple[str, int]) -> None:
        """Connect to one member; from then on ``_broke`` handles the end of the connection."""
        context = self._tls()
        async with asyncio.timeout(self.connect_timeout):
            _, protocol = await self.loop.create_connection(
                lambda: _Protocol(self),
                *host,
                ssl=context,
                server_hostname=host[0] if context else None,
            )
        self._protocol = protocol
        self._silent_since = None
        self._connected_at = self._now()
        self._write(protocol, self._session.connect())
        self._check(protocol)
        await protocol.connected
        protocol.broken.add_done_callback(lambda broken: self._broke(host, broken))

    def _broke(self, host: tuple[str, int], broken: asyncio.Future[None]) -> None:
        error = broken.exception()
        if isinstance(error, Exception):
            self._member_failed(host, error)
        self._disconnect()
        if not self._closed:
            self._connect()

    def _disconnect(self) -> None:
        if self._ready.is_set():
            self._broken_at = self._now()
        self._ready.clear()
        if self._check_timer is not None:
            self._check_timer.cancel()
        protocol, self._protocol = self._protocol, None
        self._session.connection_lost()
        if protocol is not None:
            protocol.fail(ConnectionAbortedError("left"))
            protocol.broken.exception()  # retrieved

    # Reading and writing

    def receive(self, data: bytes) -> None:
        """Handle bytes from the server."""
        self._silent_since = None
        following = self._session.receive(data)
        if following and self._protocol is not None:
            self._write(self._protocol, following)
        if self._session.connected and not self._ready.is_set():
            if self._session.is_new:
                self.contact_at = self._connected_at
            self._ready.set()
            self._all_tried.set()
            if self._protocol is not None:
                _resolve(self._protocol.connected)

    def _write(self, protocol: _Protocol, data: bytes) -> None:
        self._writing()
        assert protocol.transport is not None
        if not protocol.broken.done():  # uvloop raises on a late write, asyncio ignores it
            protocol.transport.write(data)

    def _check(self, protocol: _Protocol) -> None:
        """Ping if it is time, drop a silent connection, and schedule the next check."""
        try:
            if self._ping_due():
                self._write(protocol, self._session.ping())
        except TimeoutError as error:
            protocol.fail(error)
            return
        self._check_timer = self.loop.call_later(self._seconds_until_check(), self._check, protocol)


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event without using the current task: see ``plain`` of an engine."""
    if event.is_set():
        return True
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
    return event.is_set()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
