"""A connection of libpq's in pipeline mode, which the event loop reads.

A batch of statements is written at once and its results come in order. It is one transaction, or
one for each statement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from ..errors import Refused, lost, unreachable
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement
from .connection import Connection, is_end, is_skipped, rows_of, text
from .session_setup import is_direct, setup_statement

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

NEVER = float("inf")


class Call:
    """One statement, and the future of its rows."""

    __slots__ = (
        "answers",
        "error",
        "future",
        "owner",
        "parameters",
        "request_timeout",
        "rows",
        "statement",
        "tries",
    )

    def __init__(
        self,
        statement: Statement,
        values: Sequence[object],
        owner: str,
        future: asyncio.Future[Rows],
    ) -> None:
        self.statement = statement
        self.parameters = [text(value) for value in values]
        self.owner = owner
        self.future = future
        self.rows: Rows = []
        self.error: Refused | None = None
        self.answers = 1
        """How many results are still to come for it."""
        self.tries = 0
        self.request_timeout = 0.0
        """How many seconds its results may take; used by ``BatchingPool`` only."""

    @property
    def order(self) -> bytes:
        """The sort key in a batch: the name of the lock."""
        return (self.parameters[0] if self.parameters else None) or b""

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class AioConnection(Connection):
    """A connection that the event loop reads; it serves one batch at a time."""

    def __init__(
        self, pgconn: PGconn, loop: asyncio.AbstractEventLoop, done: Callable[[AioConnection], None]
    ) -> None:
        super().__init__(pgconn)
        self._loop = loop
        self._done = done
        self._socket: int = pgconn.socket
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = NEVER
        self._request_timeout = self._give_up = NEVER
        self._writing = False
        self.batch: list[Call] = []
        self._at = 0
        self._ends = 0
        self.on_notify: Callable[[str], None] | None = None
        """Called with the payload of each notification; None where the connection does not listen.
        """
        pgconn.enter_pipeline_mode()
        loop.add_reader(self._socket, self._read)

    def start(
        self, batch: list[Call], request_timeout: float | None, together: bool = True
    ) -> None:
        """Send a batch in one write: as one transaction, or as one for each call."""
        self.batch, self._at, self._ends = batch, 0, 1 if together else len(batch)
        try:
            fresh: set[str] = set()
            for call in batch:
                call.rows, call.error = [], None
                call.answers = self.send(call.statement, call.parameters, fresh)
                if not together:
                    self.pgconn.pipeline_sync()
            if together:
                self.pgconn.pipeline_sync()
            self._write()
        except (psycopg.Error, OSError) as error:
            self.end(error)
            return
        self._request_timeout = NEVER if request_timeout is None else request_timeout
        self._give_up = self._loop.time() + self._request_timeout
        if self._give_up < self._looks_at:
            self._look_at(self._give_up)

    def _look_at(self, moment: float) -> None:
        """Set the timer. A timer for each batch would cost more than sending the batch."""
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at, self._timer = moment, self._loop.call_at(moment, self._look)

    def _look(self) -> None:
        self._looks_at, self._timer = NEVER, None
        if self.batch and self._give_up <= self._loop.time():
            self.end(TimeoutError(f"no answer within {self._request_timeout:g} s"))
        elif self.batch and self._give_up < NEVER:
            self._look_at(self._give_up)

    def _write(self) -> None:
        more = bool(self.pgconn.flush())
        if more and not self._writing:
            self._loop.add_writer(self._socket, self._flush)
        elif self._writing and not more:
            self._loop.remove_writer(self._socket)
        self._writing = more

    def _flush(self) -> None:
        try:
            self._write()
        except (psycopg.Error, OSError) as error:
            self.end(error)

    def _read(self) -> None:
        try:
            self.pgconn.consume_input()
            while self.batch and not self.pgconn.is_busy():
                result = self.pgconn.get_result()
                if result is not None:
                    self._take(result)
            if self.on_notify is not None:
                while (notice := self.pgconn.notifies()) is not None:
                    self.on_notify(notice.extra.decode())
        except (psycopg.Error, OSError) as error:
            self.end(error)
            return
        if not self.batch and not self.alive():
            self.end(ConnectionError("the server has closed the connection"))

    def _take(self, result: PGresult) -> None:
        if is_end(result):
            self._ends -= 1
            if self._ends == 0:
                self._done(self)
            return
        call = self.batch[self._at]
        call.answers -= 1
        if call.answers == 0:
            self._at += 1
        if is_skipped(result):
            return
        try:
            call.rows = rows_of(result)
        except Refused as error:
            if error.fatal:
                raise ConnectionError(str(error)) from error
            call.error = error
        else:
            if call.answers:
                self.prepared.add(call.statement.name)

    def end(self, error: BaseException) -> None:
        """Close the connection, and fail the calls under way."""
        if self.broken:
            return
        self._loop.remove_reader(self._socket)
        if self._writing:
            self._loop.remove_writer(self._socket)
        if self._timer is not None:
            self._timer.cancel()
        self.drop()
        for call in self.batch:
            call.fail(lost(error))
        self._done(self)


async def connect(
    settings: Settings,
    done: Callable[[AioConnection], None],
    conninfo: dict[str, str] | None = None,
) -> AioConnection:
    """Connect to the server and set the session up."""
    driver = await reach(settings, conninfo)
    pgconn = driver.pgconn
    try:
        async with asyncio.timeout(settings.request_timeout):
            setup = await driver.execute(*setup_statement(settings, pgconn))
            direct = is_direct(await setup.fetchone(), settings)
    except BaseException as error:
        pgconn.finish()
        if isinstance(error, psycopg.Error | TimeoutError):
            raise unreachable(error, settings.where) from error
        raise
    del driver.pgconn  # its own destructor would complain in every forked child
    connection = AioConnection(pgconn, asyncio.get_running_loop(), done)
    connection.direct = connection.prepares = direct
    return connection


async def reach(
    settings: Settings, conninfo: dict[str, str] | None = None
) -> psycopg.AsyncConnection[Any]:
    """Open a connection of the driver's, in autocommit."""
    try:
        return await psycopg.AsyncConnection.connect(
            **(conninfo or settings.conninfo),  # type: ignore[arg-type]
            autocommit=True,
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        raise unreachable(error, settings.where) from error
