"""A connection whose transaction the caller may join, under asyncio.

The caller has the driver's own object, and we use no other way: the driver lets one statement
after the other through.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq

from ....errors import FencelockError, Unavailable
from ....wires.disconnect_monitor import Hangups
from ..errors import Refused, lost, refusal
from ..statements import Statement
from .connection import Rows, shut


class AioTransaction:
    """One transaction after another, on one connection."""

    def __init__(
        self, connection: psycopg.AsyncConnection[Any], request_timeout: float, hangups: Hangups
    ) -> None:
        self.connection = connection
        self._loop = asyncio.get_running_loop()
        self._hangups = hangups
        self._ended: Callable[[], None] | None = None
        self._request_timeout = request_timeout
        self._tasks: set[asyncio.Task[Rows]] = set()
        self.pid = 0
        self.holds: set[str] = set()
        self.ttls: Counter[float] = Counter()
        self.limit = "0"
        self.telling = 0
        self.dead = False

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, when the session has ended."""
        self._ended = ended
        self._hangups.watch(self.connection.pgconn.socket, self._hang_up)

    def _hang_up(self) -> None:
        """The server has ended it; told by another thread, which leaves the rest to the loop."""
        try:
            self._loop.call_soon_threadsafe(self._let_go)
        except RuntimeError:
            pass  # the loop is closed, and nobody holds anything any more

    def _let_go(self) -> None:
        self.dead = True
        if self.connection.lock.locked() or self._tasks:
            self._tell()  # whoever is using the connection is told by its own statement
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
        """Whether a statement has failed, and all that is left is to roll back."""
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.INERROR

    async def ask(self, statement: Statement, *values: object) -> Rows:
        """Run one statement, after whatever the caller is doing with the connection."""
        if self.dead or self.connection.closed:
            self.dead = True
            raise Unavailable("the session has ended; nothing happened")
        # A driver that is cancelled asks the server to stop, and waits for that: so it is not. Who
        # was cancelled leaves the statement behind, and ends the connection or waits for it.
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
            task.exception()  # perhaps nobody else looks at it
        if self.dead and not self.connection.lock.locked():
            self.connection.pgconn.finish()

    async def _run(self, statement: Statement, values: tuple[object, ...]) -> Rows:
        cursor = psycopg.AsyncRawCursor(self.connection)
        try:
            await cursor.execute(statement.sql.encode(), values or None)
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

    def post(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement that may take for ever; ``done`` hears what becomes of it."""

        def ended(task: asyncio.Task[Rows]) -> None:
            if task.cancelled():
                done(Unavailable("the wait was cancelled"))
            else:
                error = task.exception()
                done(error if isinstance(error, Exception) else task.result())

        self._start(statement, values).add_done_callback(ended)

    async def whisper(self, statement: Statement, *values: object) -> Rows | None:
        """Ask, unless the caller is using the connection at this moment."""
        pgconn = self.connection.pgconn
        if self.connection.lock.locked():
            return None
        if pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            return None
        if pgconn.pipeline_status != pq.PipelineStatus.OFF:
            return None
        return await self.ask(statement, *values)

    async def end(self, statement: Statement) -> Rows:
        """Say the last word."""
        return await self.ask(statement)

    async def linger(self, seconds: float) -> None:
        """The loop hears the answer in any case."""

    def drop(self) -> None:
        """End it. While somebody uses it, it is not closed: the statement under way finds out."""
        self.dead = True
        self._hangups.forget(self._hang_up)
        if self.connection.lock.locked():
            shut(self.connection.pgconn)
        else:
            self.connection.pgconn.finish()
        self._tell()


def _bytes(value: object) -> bytes | None:
    """As the wires of the other modes have it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()
