"""psycopg 3: the guard's upsert in one message, prepared under a name of ours.

psycopg sends BEGIN by itself before a first statement, and waits for the answer. Here both go in
one message, so that the guard costs little more than its upsert. In a transaction that has begun a
savepoint stands in for BEGIN: should the prepared statement be gone, as behind a pooler, there is
somewhere to go back to. Whatever is special about a connection leaves it to the usual way, which
does the same: settings for new transactions, prepared statements that are turned off.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection
from psycopg.errors import error_from_result
from psycopg.generators import execute

from ...errors import UsageError
from . import failures
from .links import PARAMETER, DriverLink
from .steps import Entry, Steps

__all__ = ["PsycopgLink"]

T = TypeVar("T")

_IDLE, _OPEN, _NO_PIPELINE = 0, 2, 0  # as libpq counts them
_DONE, _FAILED = 1, 7
_SAVEPOINT = "fencelock"
_NOT_PREPARED, _PREPARED_BY_OTHERS = "26000", "42P05"
_PLAIN = re.compile(r"[A-Za-z0-9_:./@ -]*")

_prepared: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""By connection, the names of what is prepared there."""


class PsycopgLink(DriverLink):
    """Asks over a connection of psycopg 3, of either flavor."""

    def run(self, steps: Steps[T], where: str, entry: Entry | None = None) -> T | Awaitable[T]:
        connection = self._connection
        if connection.pgconn.pipeline_status != _NO_PIPELINE:
            raise UsageError(
                "a guard needs the answer of the database before anything else is done, and in a "
                "pipeline there is none yet: enter it before the pipeline begins"
            )
        opening = _opening(connection) if entry is not None else None
        if entry is None or opening is None:
            return super().run(steps, where, entry)
        if isinstance(connection, AsyncConnection):
            return self._enter_later(steps, where, entry, opening)
        try:
            with connection.lock:
                connection.pgconn.send_query(_command(connection, entry, opening))
                results = connection.wait(execute(connection.pgconn))
            if _is_entered(results, opening):
                return cast("T", None)  # the steps would end like this
            if _must_go_back(connection, entry, results[-1]):
                if opening.savepoint:
                    connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                else:
                    connection.rollback()
        except Exception as error:
            failures.meet(error, where)
            raise
        return super().run(steps, where, entry)

    async def _enter_later(self, steps: Steps[T], where: str, entry: Entry, opening: _Opening) -> T:
        connection = self._connection
        try:
            async with connection.lock:
                connection.pgconn.send_query(_command(connection, entry, opening))
                results = await connection.wait(execute(connection.pgconn))
            if _is_entered(results, opening):
                return cast("T", None)
            if _must_go_back(connection, entry, results[-1]):
                if opening.savepoint:
                    await connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                else:
                    await connection.rollback()
        except Exception as error:
            failures.meet(error, where)
            raise
        return await cast("Awaitable[T]", super().run(steps, where, entry))


class _Opening(NamedTuple):
    """What is said before the statement, and after it."""

    first: str
    last: str
    savepoint: bool


_BEGIN = _Opening("BEGIN; ", "", savepoint=False)
_SAVE = _Opening(f"SAVEPOINT {_SAVEPOINT}; ", f"; RELEASE SAVEPOINT {_SAVEPOINT}", savepoint=True)


def _opening(connection: Any) -> _Opening | None:
    """How the guard's message begins; None where the usual way must be gone."""
    if connection.prepare_threshold is None:
        return None
    if connection.pgconn.transaction_status == _OPEN:
        return _SAVE
    return _BEGIN if _begins(connection) else None


def _begins(connection: Any) -> bool:
    """Whether psycopg would send a plain BEGIN before the next statement."""
    return (
        connection.pgconn.transaction_status == _IDLE
        and not connection.autocommit
        and connection.isolation_level is None
        and connection.read_only is None
        and connection.deferrable is None
    )


def _command(connection: Any, entry: Entry, opening: _Opening) -> bytes:
    """What opens, prepares the statement if need be, and runs it."""
    sql, key, mark = entry
    name, prepare = _statement(sql)
    known = _prepared.get(connection)
    if known is None:
        known = _prepared[connection] = set()
    if _PLAIN.fullmatch(key):
        text = f"'{key}'"
    else:  # in a form in which nothing needs to be escaped
        text = f"convert_from(decode('{key.encode().hex()}', 'hex'), 'UTF8')"
    first, last, _ = opening
    if name not in known:
        known.add(name)
        first = f"{first}{prepare}; "
    return f"{first}EXECUTE {name} ({text}, {mark}){last}".encode()


def _is_entered(results: Sequence[Any], opening: _Opening) -> bool:
    """Whether the statement has raised the mark, or found it as it should be."""
    if results[-1].status != _DONE:
        return False
    said: int = results[-2 if opening.savepoint else -1].command_tuples
    return said == 1


@lru_cache(maxsize=64)
def _statement(sql: str) -> tuple[str, str]:
    text = PARAMETER.sub(lambda found: "$1" if found[1] == "name" else "$2", sql)
    name = f"fencelock_{sha256(text.encode()).hexdigest()[:16]}"
    return name, f"PREPARE {name} (text, bigint) AS {text}"


def _must_go_back(connection: Any, entry: Entry, last: Any) -> bool:
    """Whether it failed because statements were dropped or prepared behind our back.

    Any other failure is raised. False: nothing failed, the fence was refused.
    """
    if last.status != _FAILED:
        return False
    error = error_from_result(last, encoding=connection.info.encoding)
    if error.sqlstate != _PREPARED_BY_OTHERS:
        _prepared[connection].discard(_statement(entry.sql)[0])
    if error.sqlstate not in (_NOT_PREPARED, _PREPARED_BY_OTHERS):
        raise error
    return True
