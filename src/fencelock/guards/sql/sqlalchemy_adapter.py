"""Execute over SQLAlchemy's Connection or Session, and those of asyncio.

Statements go through SQLAlchemy, which passes their parameters in the driver's style and knows that
a transaction has begun.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

from sqlalchemy import Connection, text
from sqlalchemy.orm import Session, scoped_session

from ...errors import UsageError
from ..runner import run
from . import dialects, errors, transactions
from .steps import Result, Statement, Steps, Table

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

__all__ = ["SqlalchemyAdapter", "is_async_session"]

T = TypeVar("T")


class SqlalchemyAdapter:
    """Executes over a connection of SQLAlchemy."""

    def __init__(self, connection: Any, dialect: str | None) -> None:
        if isinstance(connection, scoped_session) or _is_of_asyncio(
            connection, "async_scoped_session"
        ):
            connection = cast("Any", connection)()
        if not isinstance(connection, Connection | Session) and not _is_async(connection):
            raise UsageError(
                "a guard works in a transaction: pass a Connection or a Session, "
                f"not {connection!r}"
            )
        self._connection: Any = connection
        self.dialect = dialects.find(dialect or _dialect(connection))

    def is_open(self) -> bool | None:
        return bool(self._connection.in_transaction())

    def run(
        self, steps: Steps[T], table: Table, *, in_transaction: bool = False
    ) -> T | Awaitable[T]:
        remembers = self.dialect.remembers
        if _is_async(self._connection):
            return self._connection.run_sync(_run, steps, table, in_transaction, remembers)
        return _run(self._connection, steps, table, in_transaction, remembers)


def is_async_session(given: object) -> TypeGuard[AsyncSession]:
    """Return whether it is SQLAlchemy's AsyncSession."""
    return _is_of_asyncio(given, "AsyncSession")


def _is_async(given: object) -> TypeGuard[AsyncSession | AsyncConnection]:
    return _is_of_asyncio(given, "AsyncConnection") or is_async_session(given)


def _is_of_asyncio(given: object, kind: str) -> bool:
    """Return whether it is of this class of SQLAlchemy's asyncio module.

    The module is not imported, as that fails without greenlet; a program with such an object has
    imported it.
    """
    module = sys.modules.get("sqlalchemy.ext.asyncio")
    return module is not None and isinstance(given, getattr(module, kind))


def _dialect(connection: Any) -> str:
    if isinstance(connection, Session) or is_async_session(connection):
        return str(connection.get_bind().dialect.name)
    return str(connection.dialect.name)


def _run(
    given: Connection | Session, steps: Steps[T], table: Table, within: bool, remembers: bool
) -> T:
    try:
        connection = given.connection() if isinstance(given, Session) else given
        if not connection.in_transaction():
            connection.begin()  # as the first statement would
        if within:
            transactions.demand(_belongs(connection))
        return run(steps, partial(_execute, connection, remembers))
    except Exception as error:
        errors.raise_mapped(error, table)
        raise


def _belongs(connection: Connection) -> bool | None:
    """Return whether the next change is in a transaction, or None if unknown.

    By the driver's state: SQLAlchemy reports a transaction even in autocommit mode.
    """
    pooled = connection.connection
    if getattr(pooled.dbapi_connection, "autocommit", None) is True:
        return False
    return transactions.may_change(pooled.driver_connection)


def _execute(connection: Connection, remembers: bool, statement: Statement) -> Result:
    with connection.execute(text(statement.sql), dict(statement.parameters)) as result:
        columns = tuple(result.keys()) if statement.fetch else ()
        row = result.first() if statement.fetch else None
        number = result.lastrowid if remembers and not result.returns_rows else None
        return Result(result.rowcount, number, tuple(row) if row is not None else None, columns)
