"""A blocking connection: the calling thread sends, waits and reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from ....errors import FencelockError, OutcomeUnknown, Unavailable
from ....wires.poll import READ, WRITE, Poll, new_poll, wait_for
from ....wires.wakeup_pipe import WakeupPipe
from ....world import World
from ..errors import PREPARED, RETRIED, Refused, lost, refusal, unreachable
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement
from .connection import Connection, rows_of, text
from .permits import Permit
from .session_setup import is_direct, setup_statement

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

NEVER = float("inf")
TRIES_MAX = 5
FRESH_S = 0.005
_NONE: set[str] = set()


class ThreadConnection(Connection):
    """A connection on which the calling thread waits for its result."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._poll = new_poll()
        self._poll.register(self.pgconn.socket, READ)
        self._listening: Poll | None = None
        self._rows: Rows = []
        self._refused: Refused | None = None
        self.fresh_until = 0.0
        """Until then its life need not be checked: the server has just answered."""
        self.busy = False
        """Whether a result is under way. It stays so if the caller was interrupted or left."""
        self.permit: Permit | None = None
        """The permit by which it counts in the size of its pool."""

    def execute(
        self, statement: Statement, values: Sequence[object], request_timeout: float
    ) -> Rows:
        """Send one statement and return its rows."""
        parameters = [v.encode() if type(v) is str else text(v) for v in values]
        self.busy = True
        if statement.name in self.prepared:  # as nearly always: the fast path
            self.pgconn.send_query_prepared(statement.name.encode(), parameters)
        elif not parameters and not statement.name:  # perhaps several statements
            self.pgconn.send_query(statement.sql.encode())
        else:
            self._prepare_and_send(statement, parameters, request_timeout)
        rows = self._answer(request_timeout)
        self.busy = False
        return rows

    def _prepare_and_send(
        self, statement: Statement, parameters: Sequence[bytes | None], request_timeout: float
    ) -> None:
        """Send a statement, after preparing it if that is needed."""
        if not self.knows(statement):
            self._prepare(statement, request_timeout)
        self.send(statement, parameters, _NONE)

    def script(self, script: str, request_timeout: float) -> None:
        """Send several statements without parameters; they are one transaction."""
        self.busy = True
        self.pgconn.send_query(script.encode())
        self._answer(request_timeout)

    def _prepare(self, statement: Statement, request_timeout: float) -> None:
        self.pgconn.send_prepare(statement.name.encode(), statement.sql.encode())
        self._answer(request_timeout)
        self.prepared.add(statement.name)

    def _answer(self, request_timeout: float) -> Rows:
        """Wait for the rows of what was sent: none can have come before all was sent."""
        self._rows, self._refused = [], None
        if self.pgconn.flush():
            self._flush(request_timeout)
        left = request_timeout
        give_up = 0.0
        while left > 0 and self._poll.poll(left * 1000):
            self.pgconn.consume_input()
            rows = self.take()
            now = time.monotonic()
            self.fresh_until = now + FRESH_S
            if rows is not None:
                return rows
            give_up = give_up or now + request_timeout
            left = give_up - now
        raise TimeoutError(f"no answer within {request_timeout:g} s")

    def _flush(self, request_timeout: float) -> None:
        give_up = time.monotonic() + request_timeout
        while self.pgconn.flush():
            if not wait_for(self.pgconn.socket, WRITE, give_up - time.monotonic()):
                raise TimeoutError(f"the server took nothing more for {request_timeout:g} s")

    def drain(self, request_timeout: float) -> None:
        """Read a result that no caller waits for any more, so that the next call gets its own."""
        give_up = time.monotonic() + request_timeout
        try:
            while self.pgconn.flush() or self.take() is None:
                left = give_up - time.monotonic()
                if left <= 0 or not self._poll.poll(left * 1000):
                    raise TimeoutError(f"no answer within {request_timeout:g} s")
                self.pgconn.consume_input()
        except Refused:
            pass
        self._refused, self.busy = None, False

    def send_async(
        self, statement: Statement, values: Sequence[object], request_timeout: float
    ) -> None:
        """Send one statement and return; ``take`` returns its rows once they have come."""
        self.busy = True
        self._prepare_and_send(statement, list(map(text, values)), request_timeout)
        self._rows, self._refused = [], None
        self._flush(request_timeout)

    def take(self) -> Rows | None:
        """Return the rows once the server is ready again, since only then are they committed."""
        pgconn = self.pgconn
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                if self._refused is not None:
                    raise self._refused
                return self._rows
            try:
                self._rows = rows_of(result)
            except Refused as error:
                self._refused = self._refused or error
        return None

    def notifications(self, timeout: float, wakeup: WakeupPipe) -> list[str]:
        """Wait for notifications or the wakeup, which is always the same; return the payloads."""
        pgconn = self.pgconn
        notice = pgconn.notifies()
        if notice is None:  # else it came along with the result of a statement
            if self._listening is None:
                self._listening = new_poll()
                self._listening.register(pgconn.socket, READ)
                self._listening.register(wakeup.descriptor, READ)
            if not (ready := self._listening.poll(max(0.0, timeout) * 1000)):
                return []
            for descriptor, _ in ready:
                if descriptor == wakeup.descriptor:
                    wakeup.drain()
            pgconn.consume_input()
            self.fresh_until = time.monotonic() + FRESH_S
            notice = pgconn.notifies()
        payloads: list[str] = []
        while notice is not None:
            payloads.append(notice.extra.decode())
            notice = pgconn.notifies()
        return payloads

    def readable(self, seconds: float) -> bool:
        """Wait until the server has sent something; False if the time is up."""
        return bool(self._poll.poll(seconds * 1000))

    def stale(self) -> bool:
        """Return whether an idle connection has ended; reads what the server sent meanwhile."""
        if not self._poll.poll(0):
            return not self.alive()
        try:
            self.pgconn.consume_input()
        except psycopg.Error:
            return True
        return bool(self._poll.poll(0)) or not self.alive()


def time_left(world: World, request_timeout: float) -> float:
    """Return how long a call may take: less than request_timeout if its deadline is near."""
    limit = world.limit()
    if limit == NEVER:
        return request_timeout
    left = min(request_timeout, limit - world.now())
    if left <= 0:
        raise Unavailable("no time was left to ask the server; nothing happened")
    return left


def connect(
    world: World, settings: Settings, way: dict[str, str] | None = None
) -> ThreadConnection:
    """Connect to the server and set the session up."""
    pgconn = reach(world, settings, way)
    connection = ThreadConnection(pgconn)
    sql, values = setup_statement(settings, pgconn)
    for number in range(1, len(values) + 1):
        sql = sql.replace(b"%s", b"$%d" % number, 1)
    try:
        request_timeout = time_left(world, settings.request_timeout)
        rows = execute(connection, Statement("", sql.decode()), values, request_timeout)
        connection.direct = connection.prepares = is_direct(rows[0], settings)
    except BaseException as error:
        connection.drop()
        if isinstance(error, OutcomeUnknown):  # only the session's setup was sent
            raise Unavailable(
                f"{settings.where} cannot be used; nothing happened. {error}"
            ) from error
        raise
    return connection


def reach(world: World, settings: Settings, way: dict[str, str] | None = None) -> PGconn:
    """Connect to the first server that accepts, within the time left."""
    words = way or settings.conninfo
    hosts, ports = (words.get(word, "").split(",") for word in ("host", "port"))
    failed: FencelockError | None = None
    request_timeout = float(words["connect_timeout"])
    for left, (host, port) in zip(
        range(len(hosts), 0, -1), zip(hosts, ports, strict=True), strict=True
    ):
        seconds = min(request_timeout, time_left(world, NEVER) / left)
        try:
            return _establish({**words, "host": host, "port": port}, seconds)
        except (psycopg.Error, OSError) as error:
            failed = unreachable(error, settings.where)
    assert failed is not None
    raise failed


def _establish(words: dict[str, str], seconds: float) -> PGconn:
    give_up = time.monotonic() + seconds
    pgconn = pq.PGconn.connect_start(
        make_conninfo(**{k: v for k, v in words.items() if v}).encode()
    )
    try:
        while pgconn.status != pq.ConnStatus.BAD:
            step = pgconn.connect_poll()
            if step == pq.PollingStatus.OK:
                pgconn.nonblocking = 1
                return pgconn
            if step == pq.PollingStatus.FAILED:
                break
            mask = READ if step == pq.PollingStatus.READING else WRITE
            if not wait_for(pgconn.socket, mask, give_up - time.monotonic()):
                raise TimeoutError(f"it did not answer within {seconds:.3g} s")
        raise psycopg.OperationalError(pgconn.get_error_message())
    except BaseException:
        pgconn.finish()
        raise


def execute(
    connection: ThreadConnection,
    statement: Statement,
    values: Sequence[object],
    request_timeout: float,
    tries: int = TRIES_MAX,
    keep: bool = False,
) -> Rows:
    """Run a statement, with retries, and raise errors of ours. A failed connection is dropped.

    With ``keep``, one whose reply has not come in time is left as it is, ``busy``.
    """
    give_up = 0.0
    for attempt in range(1, tries + 1):
        try:
            return connection.execute(statement, values, request_timeout)
        except Refused as error:
            connection.busy = False  # all of the result has come
            now = time.monotonic()
            give_up = give_up or now + request_timeout
            if error.state in RETRIED and attempt < tries and now < give_up:
                request_timeout = give_up - now
                continue
            if error.state == PREPARED and attempt < tries:  # by a call that was interrupted
                connection.prepared.add(statement.name)
                continue
            if error.fatal:
                connection.drop()
            raise refusal(error) from None
        except (psycopg.Error, OSError) as error:
            if not (keep and isinstance(error, TimeoutError)):
                connection.drop()
            raise lost(error) from error
    raise AssertionError("unreachable")
