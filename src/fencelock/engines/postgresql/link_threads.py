"""A connection whose caller waits for it: the calling thread sends, waits and reads."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg

from .alarm import Alarm
from .failures import RETRIED, Refused, lost, refusal, unreachable
from .greeting import greet, is_direct
from .link import Link, Rows, rows_of, text
from .settings import Settings
from .statements import Statement

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

TRIES_MAX = 5
FRESH_S = 0.005
_NONE: set[str] = set()


class ThreadLink(Link):
    """A connection whose caller waits for it."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)
        self._ears: select.poll | None = None
        self._rows: Rows = []
        self._refused: Refused | None = None
        self.fresh_until = 0.0
        """Until then nobody needs to look whether the server is still there: it has just spoken."""

    def ask(self, statement: Statement, values: Sequence[object], patience: float) -> Rows:
        """Send one statement and return its rows."""
        parameters = [v.encode() if type(v) is str else text(v) for v in values]
        if statement.name in self.prepared:  # as nearly always: without a detour
            self.pgconn.send_query_prepared(statement.name.encode(), parameters)
        else:
            self._introduce(statement, parameters, patience)
        return self._answer(patience)

    def _introduce(
        self, statement: Statement, parameters: Sequence[bytes | None], patience: float
    ) -> None:
        """Put a statement on its way that may be new to the server."""
        if not self.knows(statement):
            self._prepare(statement, patience)
        self.send(statement, parameters, _NONE)

    def script(self, script: str, patience: float) -> None:
        """Send several statements without parameters; they are one transaction."""
        self.pgconn.send_query(script.encode())
        self._answer(patience)

    def _prepare(self, statement: Statement, patience: float) -> None:
        self.pgconn.send_prepare(statement.name.encode(), statement.sql.encode())
        self._answer(patience)
        self.prepared.add(statement.name)

    def _answer(self, patience: float) -> Rows:
        """Wait for the answer of what was sent: none of it can have come before all was sent."""
        self._rows, self._refused = [], None
        if self.pgconn.flush():
            self._flush()
        left = patience
        give_up = 0.0
        while left > 0 and self._poll.poll(left * 1000):
            self.pgconn.consume_input()
            rows = self.take()
            now = time.monotonic()
            self.fresh_until = now + FRESH_S
            if rows is not None:
                return rows
            give_up = give_up or now + patience
            left = give_up - now
        raise TimeoutError(f"no answer within {patience:g} s")

    def _flush(self) -> None:
        while self.pgconn.flush():
            select.select([], [self.pgconn.socket], [], 0.1)

    def post(self, statement: Statement, values: Sequence[object], patience: float) -> None:
        """Send one statement and return; ``take`` has its rows once they have come."""
        self._introduce(statement, list(map(text, values)), patience)
        self._rows, self._refused = [], None
        self._flush()

    def take(self) -> Rows | None:
        """The rows, once the server is ready again: only then is the statement committed."""
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

    def hear(self, timeout: float, alarm: Alarm) -> list[str]:
        """Wait for notifications, or an alarm, always the same; return the payload of each."""
        pgconn = self.pgconn
        notice = pgconn.notifies()
        if notice is None:  # else it came along with the answer to a statement
            if self._ears is None:
                self._ears = select.poll()
                self._ears.register(pgconn.socket, select.POLLIN)
                self._ears.register(alarm.descriptor, select.POLLIN)
            if not (heard := self._ears.poll(max(0.0, timeout) * 1000)):
                return []
            for descriptor, _ in heard:
                if descriptor == alarm.descriptor:
                    alarm.hush()
            pgconn.consume_input()
            self.fresh_until = time.monotonic() + FRESH_S
            notice = pgconn.notifies()
        told: list[str] = []
        while notice is not None:
            told.append(notice.extra.decode())
            notice = pgconn.notifies()
        return told

    def readable(self, seconds: float) -> bool:
        """Wait until the server has said something."""
        return bool(self._poll.poll(seconds * 1000))

    def stale(self) -> bool:
        """Whether the server has spoken, or left, while nobody asked."""
        if not self._poll.poll(0):
            return not self.alive()
        try:
            self.pgconn.consume_input()
        except psycopg.Error:
            return True
        return bool(self._poll.poll(0)) or not self.alive()


def connect(settings: Settings, conninfo: dict[str, str] | None = None) -> ThreadLink:
    """Reach the server and agree on how the session behaves."""
    connection = reach(settings, conninfo)
    pgconn = connection.pgconn
    del connection.pgconn  # its own destructor would complain in every forked child
    link = ThreadLink(pgconn)
    sql, values = greet(settings, pgconn)
    for number in range(1, len(values) + 1):
        sql = sql.replace(b"%s", b"$%d" % number, 1)
    try:
        rows = asked(link, Statement("", sql.decode()), values, settings.patience)
        link.direct = link.prepares = is_direct(rows[0], settings)
    except BaseException:
        link.drop()
        raise
    return link


def reach(
    settings: Settings, conninfo: dict[str, str] | None = None
) -> psycopg.Connection[tuple[object, ...]]:
    """A connection of the driver's, in autocommit."""
    try:
        return psycopg.Connection.connect(
            **(conninfo or settings.conninfo),  # type: ignore[arg-type]
            autocommit=True,
            prepare_threshold=None,
        )
    except psycopg.Error as error:
        raise unreachable(error, settings.where) from error


def asked(
    link: ThreadLink, statement: Statement, values: Sequence[object], patience: float
) -> Rows:
    """Ask, in our errors. A link that failed is dropped."""
    for attempt in range(1, TRIES_MAX + 1):
        try:
            return link.ask(statement, values, patience)
        except Refused as error:
            if error.state in RETRIED and attempt < TRIES_MAX:
                continue
            if error.fatal:
                link.drop()
            raise refusal(error) from None
        except (psycopg.Error, OSError) as error:
            link.drop()
            raise lost(error) from error
    raise AssertionError("unreachable")
