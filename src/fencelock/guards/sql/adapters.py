"""From the connection that a caller has to one that a guard can ask: which database, and how.

A driver is known by the module that its connections come from; none is imported here. SQLAlchemy's
and Django's connections are asked themselves, so that they know of the transaction, too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from importlib import import_module
from inspect import isawaitable
from typing import Any, Protocol, TypeVar, cast

from ...errors import UsageError
from . import dialects, errors, transactions
from .dialects import Dialect
from .steps import Ask, Entry, Steps, Table, Told

__all__ = ["Link", "link", "shortcut"]

T = TypeVar("T")

PARAMETER = re.compile(r"(?<!:):(\w+)")

# By the package that a connection's class comes from.
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
TOOLKITS = {"sqlalchemy", "django"}

# Who asks, where it is not DriverLink.
_MAKERS = {
    "psycopg": ("over_psycopg", "PsycopgLink"),
    "sqlalchemy": ("over_sqlalchemy", "SqlalchemyLink"),
    "django": ("over_django", "DjangoLink"),
}
_SHORTCUTS = {"sqlite3": "over_sqlite3", "psycopg": "over_psycopg"}


class Link(Protocol):
    """A connection that can be asked."""

    dialect: Dialect

    def is_open(self) -> bool | None:
        """Whether a transaction is open already; None when that cannot be told."""
        ...

    def run(
        self, steps: Steps[T], where: Table, entry: Entry | None = None, *, within: bool = False
    ) -> T | Awaitable[T]:
        """Ask what the steps want to know, until they end: now, or when it is awaited.

        What is an entry or within must be part of a transaction: else it is a UsageError.
        """
        ...


def link(connection: Any, dialect: str | None = None) -> Link:
    """Find out how to ask over this connection."""
    make, found = _maker(connection.__class__)
    if found is not None:
        return make(connection, found if dialect is None else dialects.find(dialect))
    if make is not DriverLink:
        return make(connection, dialect)
    if dialect and hasattr(connection, "cursor"):
        return DriverLink(connection, dialects.find(dialect))
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise UsageError(
        f"a guard cannot tell which database a {kind} leads to: pass a connection of "
        f"{', '.join(DRIVERS)}, SQLAlchemy or Django, or give the guard its dialect="
    )


class Shortcut(Protocol):
    """Sends the one statement of a guard over a connection, with as little around it as can be."""

    def __call__(
        self, connection: Any, sql: str, values: tuple[Any, ...], where: Table, enters: bool
    ) -> bool:
        """Whether it changed a row, which is all that the guard wants. If not, follow its steps.

        ``values`` are in the order in which the statement has its parameters.
        """
        ...


@lru_cache(maxsize=64)
def shortcut(kind: type[Any]) -> tuple[Dialect, Shortcut] | None:
    """The shortcut for connections of this class, where there is one."""
    package = _package(kind)
    if package not in _SHORTCUTS:
        return None
    module = import_module(f".{_SHORTCUTS[package]}", __package__)
    found: Shortcut | None = module.shortcut(kind)
    return None if found is None else (DRIVERS[package], found)


@lru_cache(maxsize=64)
def _maker(kind: type[Any]) -> tuple[Callable[[Any, Any], Link], Dialect | None]:
    """Who asks over such connections, and what a driver speaks.

    The package is imported for sure: by whoever has a connection.
    """
    package = _package(kind)
    if package not in _MAKERS:
        return DriverLink, DRIVERS.get(package)
    file, name = _MAKERS[package]
    make: Callable[[Any, Any], Link] = getattr(import_module(f".{file}", __package__), name)
    return make, DRIVERS.get(package)


def _package(kind: type[Any]) -> str:
    """Where a connection comes from; a class of the caller's own, where its base does."""
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        if package in TOOLKITS or (package in DRIVERS and hasattr(kind, "cursor")):
            return package
    return ""


class DriverLink:
    """A connection of Python's DB API, or of its asyncio relatives."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._connection = connection

    def is_open(self) -> bool | None:
        return transactions.is_open(self._connection)

    def run(
        self, steps: Steps[T], where: Table, entry: Entry | None = None, *, within: bool = False
    ) -> T | Awaitable[T]:
        ask = next(steps)
        try:
            if within or entry is not None:
                transactions.demand(transactions.may_change(self._connection))
            cursor = self._connection.cursor()
            began = cursor if isawaitable(cursor) else _execute(cursor, self.dialect, ask)
        except Exception as error:
            errors.meet(error, where)
            raise
        if isawaitable(began):
            return self._run_later(steps, ask, cursor, began, where)
        return self._run_on(steps, ask, cursor, where)

    def _run_on(self, steps: Steps[T], ask: Ask, cursor: Any, where: Table) -> T:
        try:
            while True:
                row = cursor.fetchone() if ask.fetch else None
                try:
                    ask = steps.send(_told(cursor, row))
                except StopIteration as end:
                    result: T = end.value
                    return result
                _execute(cursor, self.dialect, ask)
        except Exception as error:
            errors.meet(error, where)
            raise
        finally:
            cursor.close()

    async def _run_later(
        self, steps: Steps[T], ask: Ask, cursor: Any, began: Awaitable[Any], where: Table
    ) -> T:
        try:
            first = await began
            if began is cursor:  # a driver whose cursors are awaited, too
                cursor = first
                await _execute(cursor, self.dialect, ask)
            while True:
                row = await _now(cursor.fetchone()) if ask.fetch else None
                try:
                    ask = steps.send(_told(cursor, row))
                except StopIteration as end:
                    result: T = end.value
                    await _now(cursor.close())
                    return result
                await _execute(cursor, self.dialect, ask)
        except Exception as error:
            errors.meet(error, where)
            raise


def _execute(cursor: Any, dialect: Dialect, ask: Ask) -> Any:
    if not ask.parameters:
        return cursor.execute(ask.sql)
    sql, order = positional(ask.sql, dialect is dialects.SQLITE)
    return cursor.execute(sql, [ask.parameters[name] for name in order])


async def _now(value: Any) -> Any:
    """What a driver gives at once or later, as the one or the other of them does."""
    return await value if isawaitable(value) else value


def _told(cursor: Any, row: Any) -> Told:
    number = getattr(cursor, "lastrowid", None)
    return Told(cursor.rowcount, number, None if row is None else _plain(row))


def _plain(row: Any) -> tuple[Any, ...]:
    """The values of a row, whatever the caller has their rows made into."""
    return tuple(cast("Mapping[str, Any]", row).values() if isinstance(row, Mapping) else row)


@lru_cache(maxsize=256)
def positional(sql: str, qmark: bool) -> tuple[str, list[str]]:
    """A statement with its parameters by position, which drivers are fastest with."""
    order = PARAMETER.findall(sql)
    return PARAMETER.sub("?" if qmark else "%s", sql if qmark else sql.replace("%", "%%")), order


@lru_cache(maxsize=256)
def percent(sql: str) -> str:
    """A statement with its parameters in the manner of ``%(name)s``."""
    return PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
