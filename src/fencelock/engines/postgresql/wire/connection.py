"""One connection of libpq's, used without the driver's cursors.

A lock's statement is prepared once and its parameters are text, so the driver's cursors, adapters
and loaders would only cost time here. What is used of psycopg is its connecting (hosts, TLS,
passwords) and its binding to libpq. Each flavor waits for the socket in its own way: blocking in
``connection_threads.py``, by the event loop in ``connection_aio.py``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from ..errors import Refused
from ..rows import Rows
from ..statements import Statement

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

_OK = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_END_OF_BATCH = pq.ExecStatus.PIPELINE_SYNC
_ABORTED = pq.ExecStatus.PIPELINE_ABORTED
_FATAL = (b"FATAL", b"PANIC")


class Connection:
    """A connection, and the names of its prepared statements."""

    def __init__(self, pgconn: PGconn) -> None:
        self.pgconn = pgconn
        self.direct = False
        """Whether it leads to the server itself, and not to a pooler."""
        self.prepares = False
        self.broken = False
        self.prepared: set[str] = set()

    def send(
        self, statement: Statement, parameters: Sequence[bytes | None], fresh: set[str]
    ) -> int:
        """Send a statement, and prepare it if needed; return how many results will come for it.

        ``fresh`` has the names of the statements that are prepared in the same batch.
        """
        pgconn = self.pgconn
        if not self.prepares or not statement.name:
            pgconn.send_query_params(statement.sql.encode(), parameters)
            return 1
        name = statement.name.encode()
        if statement.name in self.prepared or statement.name in fresh:
            pgconn.send_query_prepared(name, parameters)
            return 1
        pgconn.send_prepare(name, statement.sql.encode())
        pgconn.send_query_prepared(name, parameters)
        fresh.add(statement.name)
        return 2

    def knows(self, statement: Statement) -> bool:
        """Return whether a statement can be sent without preparing it first."""
        return not self.prepares or not statement.name or statement.name in self.prepared

    def alive(self) -> bool:
        """Return whether it looks usable; a connection that the server closed still does."""
        return not self.broken and self.pgconn.status == pq.ConnStatus.OK

    def drop(self) -> None:
        """Close the connection at once."""
        self.broken = True
        self.pgconn.finish()


def shut(pgconn: PGconn) -> None:
    """Shut down the socket of a connection that another thread or task waits for, which notices.

    Were the socket closed, its descriptor's number would be reused by the next connection, and the
    other would wait for that one.
    """
    try:
        with socket.socket(fileno=os.dup(pgconn.socket)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
    except (psycopg.Error, OSError):
        pass  # it has ended before


def rows_of(result: PGresult) -> Rows:
    """Return the rows of a result; raise ``Refused`` if it is an error."""
    if result.status in _OK:
        get = result.get_value
        if result.ntuples == result.nfields == 1:  # as most of our results are
            return [(get(0, 0),)]
        columns = range(result.nfields)
        return [tuple([get(row, column) for column in columns]) for row in range(result.ntuples)]
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    severity = result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
    raise Refused(state.decode(), result.get_error_message(), not state or severity in _FATAL)


def is_end(result: PGresult) -> bool:
    """Return whether a result ends a batch."""
    return result.status == _END_OF_BATCH


def is_skipped(result: PGresult) -> bool:
    """Return whether a statement was not run because an earlier one of its batch failed."""
    return result.status == _ABORTED


def text(value: object) -> bytes | None:
    """Encode a parameter in libpq's text format."""
    if type(value) is str:
        return value.encode()
    if value is None:
        return None
    if value is True or value is False:
        return b"t" if value else b"f"
    if isinstance(value, list):
        return _array(value)  # pyright: ignore[reportUnknownArgumentType]
    return repr(value).encode()


def _array(values: list[object]) -> bytes:
    """Encode an array, with every element quoted."""
    items = (str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return ("{" + ",".join(f'"{item}"' for item in items) + "}").encode()
