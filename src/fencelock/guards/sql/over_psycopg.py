"""psycopg 3: the guard's upsert in one message, prepared.

psycopg sends BEGIN by itself before a first statement, and waits for the answer. Here both go in
one message, so that the guard costs little more than its upsert. In a transaction that has begun,
it is one of psycopg's own prepared statements, where that can be relied on. Where it cannot, as
behind a pooler, it is prepared under a name of ours, and a savepoint stands in for BEGIN: should
it be gone, there is somewhere to go back to. Whatever is special about a connection leaves it to
the usual way, which does the same: settings for new transactions, prepared statements that are
turned off.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar, cast

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, Pipeline
from psycopg.generators import execute
from psycopg.types.numeric import Int8

from ...errors import UsageError
from . import errors, talks
from .adapters import DriverLink, Shortcut, positional
from .prepared import Memory, memory
from .steps import Entry, Steps, Table
from .talks import Talk

__all__ = ["PsycopgLink", "shortcut"]

T = TypeVar("T")

_IDLE, _OPEN, _NO_PIPELINE = 0, 2, 0  # as libpq counts them
_HAS_PIPELINES = Pipeline.is_supported()


class PsycopgLink(DriverLink):
    """Asks over a connection of psycopg 3, of either flavor."""

    def run(
        self, steps: Steps[T], where: Table, entry: Entry | None = None, *, within: bool = False
    ) -> T | Awaitable[T]:
        connection = self._connection
        if connection.pgconn.pipeline_status != _NO_PIPELINE:
            raise _pipeline()
        if entry is None or not isinstance(connection, AsyncConnection):
            return super().run(steps, where, entry, within=within)
        return self._enter_later(steps, where, entry)

    async def _enter_later(self, steps: Steps[T], where: Table, entry: Entry) -> T:
        connection, known = self._connection, memory(self._connection)
        try:
            talk = _talk(connection, known, *entry)
            if talk is not None:
                async with connection.lock:
                    entered = await connection.wait(talk)
            elif _is_plain(connection):
                cursor = await AsyncCursor(connection).execute(*_said(*entry), prepare=True)
                known.look_for(connection, entry.sql)
                entered = cursor.rowcount == 1
            else:
                entered = False
        except Exception as error:
            errors.meet(error, where)
            raise
        if entered:
            return cast("T", None)  # the steps would end like this
        return await cast("Awaitable[T]", super().run(steps, where, entry))


def shortcut(kind: type[Any]) -> Shortcut | None:
    """For connections that block."""
    return _change if issubclass(kind, Connection) else None


def _change(connection: Any, sql: str, values: tuple[Any, ...], where: Table, enters: bool) -> bool:
    """The same as above, for a connection that blocks."""
    if not enters:
        return False
    pgconn, known = connection.pgconn, memory(connection)
    if pgconn.pipeline_status != _NO_PIPELINE:
        raise _pipeline()
    key, mark = values
    try:
        name = known.name_of(connection, sql)
        if name is not None and pgconn.transaction_status == _OPEN and key.isascii():
            with connection.lock:  # as below, written out: the calls would count
                pgconn.send_query_prepared(name, (key.encode(), b"%d" % mark))
                results = connection.wait(execute(pgconn))
            return talks.is_raised(connection, known, results[-1])
        talk = _talk(connection, known, sql, key, mark)
        if talk is not None:
            with connection.lock:
                return bool(connection.wait(talk))
        if not _is_plain(connection):
            return False
        cursor = Cursor(connection).execute(*_said(sql, key, mark), prepare=True)
        known.look_for(connection, sql)
        return cursor.rowcount == 1
    except Exception as error:
        errors.meet(error, where)
        raise


def _pipeline() -> UsageError:
    return UsageError(
        "a guard needs the answer of the database before anything else is done, and in a "
        "pipeline there is none yet: enter it before the pipeline begins"
    )


def _is_plain(connection: Any) -> bool:
    """Whether statements may be prepared, in a transaction that is open or begins plainly."""
    if connection.prepare_threshold is None:
        return False
    status = connection.pgconn.transaction_status
    return status == _OPEN or (status == _IDLE and _begins_plainly(connection))


def _begins_plainly(connection: Any) -> bool:
    """Whether psycopg would send a plain BEGIN before the next statement."""
    return (
        not connection.autocommit
        and connection.isolation_level is None
        and connection.read_only is None
        and connection.deferrable is None
    )


def _said(sql: str, key: str, mark: int) -> tuple[Any, tuple[Any, ...]]:
    return positional(sql, False)[0].encode(), (key, Int8(mark))


def _talk(connection: Any, known: Memory, sql: str, key: str, mark: int) -> Talk | None:
    """How to enter; None when psycopg is to do it: for this once, so that it prepares the
    statement, or always, because something is special about the connection.
    """
    pgconn, name = connection.pgconn, known.name_of(connection, sql)
    if name is not None and (key.isascii() or _is_utf8(pgconn)):
        status, values = pgconn.transaction_status, (key.encode(), b"%d" % mark)
        if status == _OPEN:
            return talks.enter(connection, known, name, values)
        if status == _IDLE and _HAS_PIPELINES and _begins_plainly(connection):
            return talks.begin_and_enter(connection, known, name, values)
    if not _is_plain(connection) or known.may_prepare(connection):
        return None
    return talks.enter_by_name(connection, known, Entry(sql, key, mark))


def _is_utf8(pgconn: Any) -> bool:
    return bool(pgconn.parameter_status(b"client_encoding") == b"UTF8")
