"""The statements of a guard, apart from how they are executed.

A guard is a generator: it yields statements, gets their results, and returns or raises. So it is
written once, and runs over a blocking driver, one of asyncio, SQLAlchemy and Django alike.
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
    """It is a query, whose first row is wanted."""


class Result(NamedTuple):
    """What a statement returned."""

    changed: int
    """How many rows were."""
    last_insert_id: int | None = None
    """What MySQL was told to remember with LAST_INSERT_ID."""
    row: tuple[Any, ...] | None = None
    columns: tuple[str, ...] = ()
    """What the values of a row are called."""


class Table(NamedTuple):
    """The table of the marks, for messages."""

    name: str
    column: str = ""
    """The column of the mark, where it is in a table of the caller's."""


def readers_of(column: str) -> tuple[str, str]:
    """The columns that a row of the caller's needs for readers."""
    return f"{column}_read", f"{column}_write"


Steps: TypeAlias = Generator[Statement, Result, T]
