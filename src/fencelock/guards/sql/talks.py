"""What a guard says to PostgreSQL over a connection of psycopg, and what it makes of the answers.

Each is a generator in psycopg's way, which waits for the server at each yield: so it is written
once for both flavors. It returns whether the guard is entered.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from psycopg.errors import DuplicatePreparedStatement, InvalidSqlStatementName, error_from_result
from psycopg.generators import execute, fetch_many

from .prepared import Memory, numbered
from .steps import Entry

__all__ = ["Talk", "begin_and_enter", "enter", "enter_by_name", "is_raised"]

Talk: TypeAlias = Generator[Any, Any, bool]

_OPEN, _FAILED = 2, 7  # as libpq counts them
_PLAIN = re.compile(r"[A-Za-z0-9_:./@ -]*")


def enter(connection: Any, known: Memory, name: bytes, values: tuple[bytes, bytes]) -> Talk:
    connection.pgconn.send_query_prepared(name, values)
    results = yield from execute(connection.pgconn)
    return is_raised(connection, known, results[-1])


def begin_and_enter(
    connection: Any, known: Memory, name: bytes, values: tuple[bytes, bytes]
) -> Talk:
    """The same, with what begins a transaction before it, in one go."""
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    pgconn.send_query_params(b"BEGIN", None)
    pgconn.send_query_prepared(name, values)
    pgconn.pipeline_sync()
    begun = yield from execute(pgconn)
    results = yield from fetch_many(pgconn)
    yield from fetch_many(pgconn)  # that it is in sync again
    pgconn.exit_pipeline_mode()
    if begun[-1].status == _FAILED:
        raise _error(connection, begun[-1])
    try:
        return is_raised(connection, known, results[-1])
    except InvalidSqlStatementName:  # it was dropped behind our back, and psycopg's
        yield from _go_back(connection, b"ROLLBACK")
        return False


def is_raised(connection: Any, known: Memory, result: Any) -> bool:
    """Whether a statement that was relied on has raised the mark."""
    if result.status == _FAILED:
        error = _error(connection, result)
        if isinstance(error, InvalidSqlStatementName):
            known.direct = False  # never again
        raise error
    return bool(result.command_tuples == 1)


class _Opening(NamedTuple):
    """What is said before the statement, and after it."""

    first: str
    last: str
    place: int
    """Where its result is, counted from the end."""
    back: bytes
    """What leads back to the beginning when it has failed."""


_BEGIN = _Opening("BEGIN; ", "", -1, b"ROLLBACK")
_SAVE = _Opening(
    "SAVEPOINT fencelock; ",
    "; RELEASE SAVEPOINT fencelock",
    -2,
    b"ROLLBACK TO SAVEPOINT fencelock",
)


def enter_by_name(connection: Any, known: Memory, entry: Entry) -> Talk:
    """By a name of ours; the first time, the server is asked which process it is."""
    pgconn = connection.pgconn
    opening = _SAVE if pgconn.transaction_status == _OPEN else _BEGIN
    asks = known.direct is None
    if asks:
        last = f"{opening.last}; SELECT pg_backend_pid()"
        opening = opening._replace(last=last, place=opening.place - 1)
    pgconn.send_query(_command(known, entry, opening))
    results = yield from execute(pgconn)
    if results[-1].status != _FAILED:
        if asks:
            known.direct = results[-1].get_value(0, 0) == b"%d" % pgconn.backend_pid
        return bool(results[opening.place].command_tuples == 1)
    error = _error(connection, results[-1])
    if not isinstance(error, DuplicatePreparedStatement):
        known.named.discard(_statement(entry.sql)[0])
    if not isinstance(error, DuplicatePreparedStatement | InvalidSqlStatementName):
        raise error
    # Statements were dropped, or prepared, behind our back.
    yield from _go_back(connection, opening.back)
    return False


def _go_back(connection: Any, command: bytes) -> Generator[Any, Any, None]:
    connection.pgconn.send_query(command)
    result = (yield from execute(connection.pgconn))[-1]
    if result.status == _FAILED:
        raise _error(connection, result)


def _command(known: Memory, entry: Entry, opening: _Opening) -> bytes:
    """What opens, prepares the statement if need be, and runs it."""
    sql, key, mark = entry
    name, prepare = _statement(sql)
    if _PLAIN.fullmatch(key):
        text = f"'{key}'"
    else:  # in a form in which nothing needs to be escaped
        text = f"convert_from(decode('{key.encode().hex()}', 'hex'), 'UTF8')"
    first = opening.first
    if name not in known.named:
        known.named.add(name)
        first = f"{first}{prepare}; "
    return f"{first}EXECUTE {name} ({text}, {mark}){opening.last}".encode()


@lru_cache(maxsize=64)
def _statement(sql: str) -> tuple[str, str]:
    text = numbered(sql)
    name = f"fencelock_{sha256(text.encode()).hexdigest()[:16]}"
    return name, f"PREPARE {name} (text, bigint) AS {text}"


def _error(connection: Any, result: Any) -> Any:
    return error_from_result(result, encoding=connection.info.encoding)
