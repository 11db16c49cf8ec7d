"""A session under asyncio: one connection for its whole life, whose end is the end of its locks.

Calls that are queued together are written together, each as a transaction of its own: a session's
locks are not released when a transaction fails, so no call may fail because of another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq

from ....errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ....wires.disconnect_monitor import Hangups
from ..errors import Refused, lost, refusal
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement
from . import Undo
from .connection import shut
from .connection_aio import AioConnection, Call

SENT_ASYNC = "async"


class AioSession:
    """One session, which many tasks use."""

    def __init__(self, settings: Settings) -> None:
        self._request_timeout = settings.request_timeout
        self._loop = asyncio.get_running_loop()
        self._pending: list[Call] = []
        self._connection: AioConnection | None = None
        self.pid = 0
        self.holds: set[str] = set()
        self.ttls: Counter[float] = Counter()
        self.limit = "0"
        self.limits_sent = 0
        self.dead = False
        self._ended: Callable[[], None] | None = None

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, when the session has ended: the loop watches the connection."""
        self._ended = ended

    def begin(self, connection: AioConnection) -> None:
        """Set the session's only connection."""
        self._connection = connection

    async def execute(
        self, statement: Statement, *values: object, undo: Undo | None = None
    ) -> Rows:
        """Run one statement in a transaction of its own; run ``undo`` if the server refuses it."""
        if self.dead:
            raise Unavailable("the session has ended; nothing happened")
        try:
            return await self._send(statement, values)
        except EngineError:
            if undo is not None:
                await self._undo(undo)
            raise

    async def _undo(self, undo: Undo) -> None:
        """Undo what a refused statement has done all the same; end the session if that fails."""
        statement, *values = undo
        try:
            await self._send(statement, tuple(values))
        except FencelockError:
            self.drop()

    def _send(self, statement: Statement, values: tuple[object, ...]) -> asyncio.Future[Rows]:
        future: asyncio.Future[Rows] = self._loop.create_future()
        self._pending.append(Call(statement, values, "", future))
        if len(self._pending) == 1:
            self._loop.call_soon(self._go)
        return future

    def send_async(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement without a timeout; call ``done`` with its rows or its error."""
        future: asyncio.Future[Rows] = self._loop.create_future()
        future.add_done_callback(lambda future: done(_outcome(future)))
        if self.dead:
            future.set_exception(Unavailable("the session has ended; nothing happened"))
            return
        self._pending.append(Call(statement, values, SENT_ASYNC, future))
        self._go()

    def _go(self) -> None:
        connection = self._connection
        if (
            connection is not None
            and not connection.batch
            and not connection.broken
            and self._pending
        ):
            batch, self._pending = self._pending, []
            for_ever = any(call.owner == SENT_ASYNC for call in batch)
            connection.start(batch, None if for_ever else self._request_timeout, together=False)

    def done(self, connection: AioConnection) -> None:
        """Deliver the results of a batch that has ended, or end with the connection."""
        batch, connection.batch = connection.batch, []
        if connection.broken:
            self.dead = True
            for call in self._pending:
                call.fail(OutcomeUnknown("the session has ended"))
            self._pending = []
            ended, self._ended = self._ended, None
            if ended is not None:
                ended()
            return
        for call in batch:
            if call.error is not None:
                call.fail(refusal(call.error))
            elif not call.future.done():
                call.future.set_result(call.rows)
        self._go()

    async def wait_briefly(self, seconds: float) -> None:
        """Do not wait: the loop reads the result in any case."""

    def drop(self) -> None:
        """End the session: the server releases its locks."""
        self.dead = True
        if self._connection is not None:
            self._connection.end(ConnectionError("the session was ended"))


def _outcome(future: asyncio.Future[Rows]) -> Rows | Exception:
    error = future.exception()
    return error if isinstance(error, Exception) else future.result()


class AioTransaction:
    """A connection of the driver's, for one transaction after another."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], request_timeout: float, hangups: Hangups
    ) -> None:
        self.connection = connection
        self._loop = asyncio.get_running_loop()
        self._hangups = hangups
        self._ended: Callable[[], None] | None = None
        self._request_timeout = request_timeout
        self._tasks: set[asyncio.Task[Rows]] = set()
        self.pid = self.began = 0
        self.dead = False

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, when the session has ended."""
        self._ended = ended
        self._hangups.watch(self.connection.pgconn.socket, self._hang_up)

    def _hang_up(self) -> None:
        """Handle a disconnect by the server: the monitor's thread leaves the rest to the loop."""
        try:
            self._loop.call_soon_threadsafe(self._let_go)
        except RuntimeError:
            pass  # the loop is closed, and nothing is held any more

    def _let_go(self) -> None:
        self.dead = True
        if self.connection.lock.locked() or self._tasks:
            self._tell()  # the statement under way gets the error by itself
        else:
            self.drop()

    def _tell(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        status = self.connection.pgconn.transaction_status
        return status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.ACTIVE)

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, so that only a rollback is possible."""
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.INERROR

    async def execute(self, statement: Statement, *values: object) -> Rows:
        """Run one statement, once no statement of the holder's is using the connection."""
        if self.dead or self.connection.closed:
            self.dead = True
            raise Unavailable("the session has ended; nothing happened")
        # The driver's call is never cancelled, since it would send a cancel request and wait for
        # that. A cancelled caller leaves the statement under way: the connection is ended, or the
        # next call waits for the statement.
        task = self._start(statement, values)
        await asyncio.wait((task,), timeout=self._request_timeout)
        if not task.done():
            self.drop()
            raise lost(f"no answer within {self._request_timeout:g} s")
        return task.result()

    def _start(self, statement: Statement, values: tuple[object, ...]) -> asyncio.Task[Rows]:
        task = self._loop.create_task(self._run(statement, values))
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Rows]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # perhaps it is retrieved nowhere else
        if self.dead and not self.connection.lock.locked():
            self.connection.pgconn.finish()

    async def _run(self, statement: Statement, values: tuple[object, ...]) -> Rows:
        cursor = psycopg.AsyncRawCursor(self.connection)
        try:
            await cursor.execute(statement.sql.encode(), values or None)
            while cursor.nextset():
                pass  # of several statements, the rows of the last
            if cursor.description is None:
                return []
            return [tuple(map(_bytes, row)) for row in await cursor.fetchall()]
        except psycopg.Error as error:
            raise self._meaning(error) from None

    def _meaning(self, error: psycopg.Error) -> FencelockError:
        if self.connection.closed or error.sqlstate is None:
            self.drop()
            return lost(error)
        return refusal(Refused(error.sqlstate, str(error), False))

    def send_async(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement without a timeout; call ``done`` with its rows or its error."""

        def ended(task: asyncio.Task[Rows]) -> None:
            if task.cancelled():
                done(Unavailable("the wait was cancelled"))
            else:
                error = task.exception()
                done(error if isinstance(error, Exception) else task.result())

        self._start(statement, values).add_done_callback(ended)

    async def execute_if_idle(self, statement: Statement, *values: object) -> Rows | None:
        """Run one statement, unless the holder is using the connection at this moment."""
        pgconn = self.connection.pgconn
        if self.connection.lock.locked():
            return None
        if pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            return None
        if pgconn.pipeline_status != pq.PipelineStatus.OFF:
            return None
        return await self.execute(statement, *values)

    async def execute_last(self, statement: Statement) -> Rows:
        """Run the last statement."""
        return await self.execute(statement)

    async def wait_briefly(self, seconds: float) -> None:
        """Do not wait: the loop reads the result in any case."""

    def drop(self) -> None:
        """End the connection; if a statement is under way, only shut its socket: it then fails."""
        self.dead = True
        self._hangups.forget(self._hang_up)
        if self.connection.lock.locked():
            shut(self.connection.pgconn)
        else:
            self.connection.pgconn.finish()
        self._tell()


def _bytes(value: object) -> bytes | None:
    """Encode a value as libpq's text, in which the other modes have their rows."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()
