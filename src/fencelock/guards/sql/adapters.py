"""Run the statements of a guard over its caller's connection.

A driver is recognized by the module of its connections' class; none is imported here. SQLAlchemy
and Django execute the statements themselves, so that they know of the transaction, too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from importlib import import_module
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Protocol, TypeVar, cast

from ...errors import UsageError
from . import dialects, errors, transactions
from .dialects import Dialect
from .steps import Result, Statement, Steps, Table

__all__ = ["Adapter", "adapt", "change", "shortcut"]

T = TypeVar("T")

PARAMETER = re.compile(r"(?<!:):(\w+)")

# By the package of a connection's class.
DRIVERS = {
    "sqlite3": dialects.SQLITE,
    "aiosqlite": dialects.SQLITE,
    "psycopg": dialects.POSTGRESQL,
    "psycopg2": dialects.POSTGRESQL,
    "pymysql": dialects.MYSQL,
    "aiomysql": dialects.MYSQL,
    "asyncmy": dialects.MYSQL,
    "MySQLdb": dialects.MYSQL,
}
TOOLKITS = {
    "sqlalchemy": ("sqlalchemy_adapter", "SqlalchemyAdapter"),
    "django": ("django_adapter", "DjangoAdapter"),
}


class Adapter(Protocol):
    """Executes the statements of a guard over a connection."""

    dialect: Dialect

    def is_open(self) -> bool | None:
        """Return whether a transaction is open, or None if unknown."""
        ...

    def run(
        self, steps: Steps[T], table: Table, *, in_transaction: bool = False
    ) -> T | Awaitable[T]:
        """Execute the statements of the steps until they end: at once, or when it is awaited.

        With ``in_transaction``, raise UsageError if they are not part of a transaction.
        """
        ...


def adapt(connection: Any, dialect: str | None = None) -> Adapter:
    """Return the adapter for this connection."""
    make, found = _maker(connection.__class__)
    if found is not None:
        return make(connection, found if dialect is None else dialects.find(dialect))
    if make is not DriverAdapter:
        return make(connection, dialect)
    if dialect and hasattr(connection, "cursor"):
        return DriverAdapter(connection, dialects.find(dialect))
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UsageError(
        f"a guard cannot tell which database a {kind} leads to: pass a connection of "
        f"{', '.join(DRIVERS)}, SQLAlchemy or Django, or give the guard its dialect="
    )


@lru_cache(maxsize=64)
def _maker(kind: type[Any]) -> tuple[Callable[[Any, Any], Adapter], Dialect | None]:
    """Return the adapter for connections of this class, and the dialect of a driver.

    A toolkit has been imported for certain, by the program that made the connection.
    """
    package = _package(kind)
    if package not in TOOLKITS:
        return DriverAdapter, DRIVERS.get(package)
    file, name = TOOLKITS[package]
    make: Callable[[Any, Any], Adapter] = getattr(import_module(f".{file}", __package__), name)
    return make, None


def _package(kind: type[Any]) -> str:
    """Return the package of a connection's class or, for a subclass, of its base."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in TOOLKITS or (package in DRIVERS and hasattr(kind, "cursor")):
            return package
    return ""


@lru_cache(maxsize=64)
def shortcut(kind: type[Any]) -> Dialect | None:
    """Return the dialect of connections that have a blocking ``execute``; else None.

    Those are Python's own sqlite3 and psycopg.
    """
    package = _package(kind)
    blocking = not iscoroutinefunction(getattr(kind, "execute", None))
    return DRIVERS[package] if package in {"sqlite3", "psycopg"} and blocking else None


def change(
    connection: Any,
    dialect: Dialect,
    sql: str,
    values: tuple[Any, ...],
    table: Table,
    *,
    in_transaction: bool,
) -> bool:
    """Execute a guard's one statement; return whether it changed a row. If not, run the steps.

    A write to a local database is so quick that the overhead of the steps would count. ``values``
    are in the order of the statement's parameters.
    """
    try:
        if dialect is dialects.SQLITE:
            begins = connection.in_transaction
        else:
            _refuse_pipeline(connection)
            begins = not connection.autocommit
        if in_transaction and not begins:
            transactions.demand(transactions.may_change(connection))
        text, _ = positional(sql, dialect is dialects.SQLITE)
        changed: int = connection.execute(text, values).rowcount
    except Exception as error:
        errors.raise_mapped(error, table)
        raise
    return changed > 0


class DriverAdapter:
    """A connection of Python's DB API, or of an asyncio driver like it."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._connection = connection

    def is_open(self) -> bool | None:
        return transactions.is_open(self._connection)

    def run(
        self, steps: Steps[T], table: Table, *, in_transaction: bool = False
    ) -> T | Awaitable[T]:
        _refuse_pipeline(self._connection)
        statement = next(steps)
        try:
            if in_transaction:
                transactions.demand(transactions.may_change(self._connection))
            cursor = self._connection.cursor()
            began = cursor if isawaitable(cursor) else self._execute(cursor, statement)
        except Exception as error:
            errors.raise_mapped(error, table)
            raise
        if isawaitable(began):
            return self._run_awaited(steps, statement, cursor, began, table)
        return self._run_blocking(steps, statement, cursor, table)

    def _run_blocking(self, steps: Steps[T], begun: Statement, cursor: Any, table: Table) -> T:
        statement = begun
        try:
            while True:
                row = cursor.fetchone() if statement.fetch else None
                try:
                    statement = steps.send(_result(cursor, row, statement.fetch))
                except StopIteration as end:
                    value: T = end.value
                    return value
                self._execute(cursor, statement)
        except Exception as error:
            errors.raise_mapped(error, table)
            raise
        finally:
            cursor.close()

    async def _run_awaited(
        self, steps: Steps[T], begun: Statement, cursor: Any, began: Awaitable[Any], table: Table
    ) -> T:
        statement = begun
        try:
            first = await began
            if began is cursor:  # a driver whose cursors are awaited, too
                cursor = first
                await self._execute(cursor, statement)
            while True:
                row = await _now(cursor.fetchone()) if statement.fetch else None
                try:
                    statement = steps.send(_result(cursor, row, statement.fetch))
                except StopIteration as end:
                    value: T = end.value
                    await _now(cursor.close())
                    return value
                await self._execute(cursor, statement)
        except Exception as error:
            errors.raise_mapped(error, table)
            raise

    def _execute(self, cursor: Any, statement: Statement) -> Any:
        if not statement.parameters:
            return cursor.execute(statement.sql)
        sql, order = positional(statement.sql, self.dialect is dialects.SQLITE)
        return cursor.execute(sql, [statement.parameters[name] for name in order])


def _refuse_pipeline(connection: Any) -> None:
    if getattr(getattr(connection, "pgconn", None), "pipeline_status", 0):
        raise UsageError(
            "a guard needs the answer of the database before anything else is done, and in a "
            "pipeline there is none yet: enter it before the pipeline begins"
        )


async def _now(value: Any) -> Any:
    """Return a value that some drivers return directly, and others as an awaitable."""
    return await value if isawaitable(value) else value


def _result(cursor: Any, row: Any, fetched: bool) -> Result:
    number = getattr(cursor, "lastrowid", None)
    if not fetched:
        return Result(cursor.rowcount, number)
    return Result(cursor.rowcount, number, None if row is None else _plain(row), names_of(cursor))


def names_of(cursor: Any) -> tuple[str, ...]:
    """Return the names of a query's columns."""
    return tuple(column[0] for column in cursor.description or ())


def _plain(row: Any) -> tuple[Any, ...]:
    """Return the values of a row, whatever the row factory of the connection."""
    return tuple(cast("Mapping[str, Any]", row).values() if isinstance(row, Mapping) else row)


@lru_cache(maxsize=256)
def positional(sql: str, qmark: bool) -> tuple[str, list[str]]:
    """Return a statement with positional parameters, the fastest form, and their order."""
    order = PARAMETER.findall(sql)
    return PARAMETER.sub("?" if qmark else "%s", sql if qmark else sql.replace("%", "%%")), order


@lru_cache(maxsize=256)
def percent(sql: str) -> str:
    """Return a statement with its parameters as ``%(name)s``."""
    return PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
