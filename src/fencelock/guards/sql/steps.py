"""The statements of a guard, apart from how they are executed.

A guard is a generator: it yields statements, is sent their results, and returns or raises. So it is
written once, for blocking drivers, asyncio, SQLAlchemy and Django alike.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Statement(NamedTuple):
    """One statement. Its parameters are written ``:name``."""

    sql: str
    parameters: Mapping[str, object]
    fetch: bool = False
    """Whether it is a query, whose first row is fetched."""


class Result(NamedTuple):
    """The result of a statement."""

    changed: int
    """How many rows were changed."""
    last_insert_id: int | None = None
    """The value that the statement set with MySQL's LAST_INSERT_ID."""
    row: tuple[Any, ...] | None = None
    columns: tuple[str, ...] = ()
    """The names of the columns of a query."""


class Table(NamedTuple):
    """The table with the marks, for messages."""

    name: str
    column: str = ""
    """The column of the mark in a table of the caller's; empty for a table of marks."""


def readers_of(column: str) -> tuple[str, str]:
    """Return the columns of readers in a table of the caller's."""
    return f"{column}_read", f"{column}_write"


Steps: TypeAlias = Generator[Statement, Result, T]
