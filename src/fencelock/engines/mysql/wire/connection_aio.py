"""The wire for asyncio: aiomysql connects, then a protocol of ours takes over its transport.

aiomysql reads an answer packet by packet through a stream, which costs several times what the
answer does, and it has to close the connection when a caller is cancelled. Here an answer is read
as it comes in, and a caller that is cancelled leaves once its answer has come, so that the link
stays good and what the caller asks next cannot overtake; if that takes long, the link is over.
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
from .codec import QUIT, Answer, Garbled, Reply, question, short
from .connection import badge_sql, hello, wear
from .connection_threads import context, tls_or_nothing
from .transaction import Transaction

LANES = 2
MOMENT_S = 0.1  # how long a caller that is cancelled waits for its answer


def arguments(settings: Settings) -> dict[str, Any]:
    """How the driver is to connect."""
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


async def connect(settings: Settings) -> Any:
    """A connection of the driver's own.

    In a task of its own: the driver has timeouts, which cancel the task that they run in.
    """
    task = asyncio.create_task(_connect(settings))
    try:
        return await task
    except asyncio.CancelledError:
        if task.done() and not task.cancelled() and task.exception() is None:
            drop(task.result())  # it came in the moment in which nobody wanted it any more
        raise


async def _connect(settings: Settings) -> Any:
    from pymysql import MySQLError

    aiomysql: Any = import_module("aiomysql")  # it has no types
    connection = aiomysql.Connection(**arguments(settings))
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        async with asyncio.timeout(
            settings.request_timeout
        ):  # the driver's own ends before the login
            with tls_or_nothing(connection, settings):
                await connection._connect()
        if task and task.cancelling() > before:  # the driver's wait_for swallows one at its end
            raise asyncio.CancelledError
    except BaseException as error:
        drop(connection)
        if isinstance(error, MySQLError | OSError | RuntimeError):
            raise not_connected(error, settings.where) from error
        raise
    return connection


def leave(transport: asyncio.Transport) -> None:
    """Close at once. Over TLS that would wait for the server, and a loop that ends does not."""
    if transport.get_extra_info("sslcontext") is None:
        transport.close()
    else:
        transport.abort()


def drop(connection: Any) -> None:
    """Close a connection of the driver's own."""
    if not connection.closed:
        try:
            leave(connection._writer.transport)
            connection.close()
        except RuntimeError:
            pass  # the event loop is closed


class AioLink(Receiver):
    """One connection, for one task at a time."""

    def __init__(self, connection: Any, where: str) -> None:
        self.badge = badge_sql(token_hex(8))
        self._loop = asyncio.get_running_loop()
        self._stream = connection._writer  # kept: it would take the transport along
        connection._writer = connection._reader = None
        transport: asyncio.Transport = self._stream.transport
        self._transport = transport
        self._where = where
        self._answer: Answer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self.socket: int = transport.get_extra_info("socket").fileno()
        self.is_over = False
        transport.set_protocol(self)

    async def ask(self, sql: str, within: float) -> list[Reply]:
        packet = question(sql)
        if self.is_over:
            raise unreachable(ConnectionError("the link is closed"), self._where)
        answer = Answer()
        self._answer = answer
        self._transport.write(packet)
        timer = self._loop.call_later(within, self._give_up, answer, within)
        cancelled: asyncio.CancelledError | None = None
        while self._pending:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                if cancelled is None and self._pending:
                    timer.cancel()
                    timer = self._loop.call_later(MOMENT_S, self._give_up, answer, MOMENT_S)
                cancelled = error
        timer.cancel()
        if cancelled is not None:
            if answer.error is not None:  # a transaction may be open, and nobody rolls it back
                self._fail(answer.error)
            raise cancelled
        if self._failure is not None:
            raise unanswered(self._failure, self._where) from self._failure
        if answer.error is not None:
            raise answer.error
        return answer.replies

    @property
    def _pending(self) -> bool:
        return self._answer is not None

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self._fail(ConnectionError("the server has ended the session"))
            return
        try:
            if answer.first and (replies := short(data)) is not None:
                answer.replies = replies
                self._wake()
            elif answer.feed(data):
                self._wake()
        except Garbled as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server closed the connection"))

    def _wake(self) -> None:
        self._answer = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _give_up(self, answer: Answer, within: float) -> None:
        if self._answer is answer:  # else it came in this very turn of the loop
            self._fail(TimeoutError(f"in {within:g} s"))

    def _fail(self, error: Exception) -> None:
        self.is_over = True
        self._failure = self._failure or error
        self._transport.abort()
        self._wake()

    def has_ended(self) -> bool:
        return self.is_over or self._transport.is_closing()

    def close(self) -> None:
        if not self.is_over:
            self.is_over = True
            if not self._loop.is_closed():  # else its socket goes with it
                self._transport.write(QUIT)
                leave(self._transport)


async def dial(world: World, settings: Settings, greeting: str = "") -> AioLink:
    """Connect and set the session up."""
    link = AioLink(await connect(settings), settings.where)
    try:
        await link.ask(
            f"{greeting or hello(settings)};{wear(link.badge)}", settings.request_timeout
        )
    except BaseException:
        link.close()
        raise
    return link


def lanes(pool: int) -> int:
    """Two: while the loop reads one answer the server has another question."""
    return min(LANES, pool)


def hangups() -> Hangups:
    """Who tells the loop that the server has closed a connection."""
    return Hangups(asyncio.get_running_loop().call_soon_threadsafe)


async def join(world: World, settings: Settings) -> Transaction:
    """Connect for a transaction that a holder may join."""
    from .transaction_aio import join

    return await join(world, settings)
