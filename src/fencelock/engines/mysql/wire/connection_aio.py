"""Connections for asyncio: aiomysql connects, then a protocol of ours takes over its transport.

aiomysql reads a response packet by packet through a stream, which costs several times what the
response does, and it has to close the connection when a caller is cancelled. Here a response is
read as it comes in, and a cancelled caller returns once its response has come, so that the
connection stays usable and the caller's next request cannot overtake; if that takes long, the
connection is closed.

Private names of aiomysql, read in 0.3.2: ``_connect``, ``_reader``, ``_writer``.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from secrets import token_hex
from typing import Any

from ....wires.buffered_protocol import Receiver
from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..errors import not_connected, unanswered, unreachable
from ..settings import Settings
from .codec import QUIT, ProtocolError, Reply, Response, query_packet, read_ok
from .connection import identity_lock_sql, setup_sql
from .connection_threads import context, tls_or_nothing

MOMENT_S = 0.1  # how long a caller that is cancelled waits for its response


def arguments(settings: Settings) -> dict[str, Any]:
    """Return the driver's arguments for a connection."""
    return {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user or None,
        "password": settings.password,
        "db": settings.database,
        "unix_socket": settings.socket or None,
        "ssl": context(settings),
        "charset": "utf8mb4",
        "autocommit": None,
        "connect_timeout": settings.request_timeout,
        "program_name": "fencelock",
    }


async def connect_driver(settings: Settings) -> Any:
    """Open a connection of the driver's.

    In a task of its own: the driver has timeouts, which cancel the task that they run in.
    """
    task = asyncio.create_task(_connect_driver(settings))
    try:
        return await task
    except asyncio.CancelledError:
        if task.done() and not task.cancelled() and task.exception() is None:
            close_driver(task.result())  # it connected at the moment of the cancellation
        raise
    finally:
        del task  # a cycle: it refers to the error, whose traceback refers to this frame


async def _connect_driver(settings: Settings) -> Any:
    from pymysql import MySQLError

    aiomysql: Any = import_module("aiomysql")  # it has no types
    connection = aiomysql.Connection(**arguments(settings))
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        # The driver's own timeout ends before the login.
        async with asyncio.timeout(settings.request_timeout):
            with tls_or_nothing(connection, settings):
                await connection._connect()
        if task and task.cancelling() > before:  # the driver's wait_for swallows one at its end
            raise asyncio.CancelledError
    except BaseException as error:
        task = None  # it would be a cycle: task, error, traceback, this frame
        close_driver(connection)
        if isinstance(error, MySQLError | OSError | RuntimeError):
            raise not_connected(error, settings.where) from error
        raise
    return connection


def close_transport(transport: asyncio.Transport) -> None:
    """Close at once. Over TLS ``close`` waits for the server, and an ending loop would not."""
    if transport.get_extra_info("sslcontext") is None:
        transport.close()
    else:
        transport.abort()


def close_driver(connection: Any) -> None:
    """Close a connection of the driver's."""
    if not connection.closed:
        try:
            close_transport(connection._writer.transport)
            connection.close()
        except RuntimeError:
            pass  # the event loop is closed


class AioConnection(Receiver):
    """One connection, for one task at a time."""

    def __init__(self, connection: Any, where: str) -> None:
        self.identity_lock = identity_lock_sql(token_hex(8))
        self._loop = asyncio.get_running_loop()
        self._stream = connection._writer  # kept: collected, it would close the transport
        connection._writer = connection._reader = None
        transport: asyncio.Transport = self._stream.transport
        self._transport = transport
        self._where = where
        self._response: Response | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._unfinished: Response | None = None
        """The response to a request whose caller has left; it may have come meanwhile."""
        self.socket: int = transport.get_extra_info("socket").fileno()
        self.is_closed = transport.is_closing()  # if so, only the driver's protocol was told
        transport.set_protocol(self)

    @property
    def under_way(self) -> bool:
        return self._unfinished is not None

    async def query(self, sql: str, timeout: float, keep: bool = False) -> list[Reply]:
        packet = query_packet(sql)
        if self._unfinished is not None:  # the response to come would be taken for another
            self._fail(ConnectionError("an earlier request is under way"))
        if self.is_closed:
            raise unreachable(ConnectionError("the connection is closed"), self._where)
        response = Response()
        self._response = response
        self._transport.write(packet)
        timer = self._loop.call_later(timeout, self._time_out, response, timeout)
        cancelled: asyncio.CancelledError | None = None
        end = self._leave if keep else self._time_out
        while self._pending and self._unfinished is None:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                if cancelled is None and self._pending:
                    timer.cancel()
                    timer = self._loop.call_later(MOMENT_S, end, response, MOMENT_S)
                cancelled = error
        timer.cancel()
        if cancelled is not None:
            if response.is_refused and not keep:  # a transaction may be open: nothing rolls it back
                self._fail(ConnectionError("the connection was given up"))
            try:
                raise cancelled
            finally:
                del cancelled  # a cycle: its traceback refers to this frame
        if self._failure is not None:
            raise unanswered(self._failure, self._where) from self._failure
        return response.result()

    async def finish(self, timeout: float) -> list[Reply]:
        response = self._unfinished
        if response is None:
            raise unanswered(ConnectionError("the connection was closed"), self._where)
        timer = self._loop.call_later(timeout, self._time_out, response, timeout)
        try:
            while self._pending:
                self._waiter = self._loop.create_future()
                await self._waiter
            self._unfinished = None
        except BaseException:
            self._fail(ConnectionError("the request was given up"))
            raise
        finally:
            timer.cancel()
        if self._failure is not None:
            raise unanswered(self._failure, self._where) from self._failure
        return response.result()

    @property
    def _pending(self) -> bool:
        return self._response is not None

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self._fail(ConnectionError("the server has ended the session"))
            return
        try:
            if response.first and (replies := read_ok(data)) is not None:
                response.replies = replies
                self._wake()
            elif response.feed(data):
                self._wake()
        except ProtocolError as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed the connection"))

    def _wake(self) -> None:
        self._response = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _leave(self, response: Response, timeout: float) -> None:
        """Let a cancelled caller go, and leave its request under way."""
        if self._response is response:
            self._unfinished = response
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _time_out(self, response: Response, timeout: float) -> None:
        if self._response is response:  # else it came in this iteration of the loop
            self._fail(TimeoutError(f"in {timeout:g} s"))

    def _fail(self, error: Exception) -> None:
        self.is_closed = True
        self._failure = self._failure or error
        self._unfinished = None
        self._transport.abort()
        self._wake()

    def closed_by_server(self) -> bool:
        return self.is_closed or self._transport.is_closing()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if not self._loop.is_closed():  # else its socket is closed with the loop
                self._transport.write(QUIT)
                close_transport(self._transport)


async def connect(world: World, settings: Settings) -> AioConnection:
    """Connect and set the session up."""
    connection = AioConnection(await connect_driver(settings), settings.where)
    try:
        setup = setup_sql(settings, connection.identity_lock)
        await connection.query(setup, settings.request_timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def disconnect_monitor() -> Hangups:
    """Return a monitor that tells the event loop when the server has closed a connection."""
    return Hangups(asyncio.get_running_loop().call_soon_threadsafe)
