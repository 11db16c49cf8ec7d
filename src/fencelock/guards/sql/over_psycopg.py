"""psycopg 3: where the guard is the first statement, the transaction begins in the same round trip.

psycopg sends BEGIN by itself before a first statement, and waits for the answer. Here both go in
one message, with the statement prepared under a name of ours, so that the guard costs little more
than its upsert. Whatever is special about a connection leaves it to the usual way, which does the
same: an open transaction, settings for new ones, prepared statements that are turned off.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar, cast
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

_IDLE, _NO_PIPELINE = 0, 0  # as libpq counts them
_DONE, _FAILED = 1, 7
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
        if entry is None or not _begins(connection):
            return super().run(steps, where, entry)
        if isinstance(connection, AsyncConnection):
            return self._enter_later(steps, where, entry)
        try:
            with connection.lock:
                connection.pgconn.send_query(_command(connection, entry))
                last = connection.wait(execute(connection.pgconn))[-1]
            if last.status == _DONE and last.command_tuples == 1:
                return cast("T", None)  # the steps would end like this
            if last.status == _FAILED and _is_about_preparing(connection, entry, last):
                connection.rollback()
        except Exception as error:
            failures.meet(error, where)
            raise
        return super().run(steps, where, entry)

    async def _enter_later(self, steps: Steps[T], where: str, entry: Entry) -> T:
        connection = self._connection
        try:
            async with connection.lock:
                connection.pgconn.send_query(_command(connection, entry))
                last = (await connection.wait(execute(connection.pgconn)))[-1]
            if last.status == _DONE and last.command_tuples == 1:
                return cast("T", None)
            if last.status == _FAILED and _is_about_preparing(connection, entry, last):
                await connection.rollback()
        except Exception as error:
            failures.meet(error, where)
            raise
        return await cast("Awaitable[T]", super().run(steps, where, entry))


def _begins(connection: Any) -> bool:
    """Whether psycopg would send a plain BEGIN before the next statement."""
    return (
        connection.pgconn.transaction_status == _IDLE
        and not connection.autocommit
        and connection.prepare_threshold is not None
        and connection.isolation_level is None
        and connection.read_only is None
        and connection.deferrable is None
    )


def _command(connection: Any, entry: Entry) -> bytes:
    """What begins the transaction, prepares the statement if need be, and runs it."""
    sql, key, mark = entry
    name, prepare = _statement(sql)
    known = _prepared.get(connection)
    if known is None:
        known = _prepared[connection] = set()
    if _PLAIN.fullmatch(key):
        text = f"'{key}'"
    else:  # in a form in which nothing needs to be escaped
        text = f"convert_from(decode('{key.encode().hex()}', 'hex'), 'UTF8')"
    if name in known:
        return f"BEGIN; EXECUTE {name} ({text}, {mark})".encode()
    known.add(name)
    return f"BEGIN; {prepare}; EXECUTE {name} ({text}, {mark})".encode()


@lru_cache(maxsize=64)
def _statement(sql: str) -> tuple[str, str]:
    text = PARAMETER.sub(lambda found: "$1" if found[1] == "name" else "$2", sql)
    name = f"fencelock_{sha256(text.encode()).hexdigest()[:16]}"
    return name, f"PREPARE {name} (text, bigint) AS {text}"


def _is_about_preparing(connection: Any, entry: Entry, result: Any) -> bool:
    """Whether somebody has dropped or prepared statements behind our back; else raise it."""
    error = error_from_result(result, encoding=connection.info.encoding)
    if error.sqlstate != _PREPARED_BY_OTHERS:
        _prepared[connection].discard(_statement(entry.sql)[0])
    if error.sqlstate not in (_NOT_PREPARED, _PREPARED_BY_OTHERS):
        raise error
    return True
