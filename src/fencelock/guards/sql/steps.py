"""What a guard wants to know of a database, apart from how it is asked.

A guard is a generator: it yields statements, gets what came of them, and returns or raises. So it
is written once, and runs over a blocking driver, one of asyncio, SQLAlchemy and Django alike.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Ask(NamedTuple):
    """One statement. Its parameters are written ``:name``."""

    sql: str
    parameters: Mapping[str, object]
    fetch: bool = False
    """It is a question, whose first row is wanted."""


class Told(NamedTuple):
    """What came of it."""

    changed: int
    """How many rows were."""
    number: int | None = None
    """What MySQL was told to remember with LAST_INSERT_ID."""
    row: tuple[Any, ...] | None = None


class Table(NamedTuple):
    """Where the marks are, for messages."""

    name: str
    column: str = ""
    """The column of the mark, where it is in a table of the caller's."""


class Entry(NamedTuple):
    """Says of steps that they enter a guard, and how they begin.

    They must belong to a transaction. A link that can do better than to follow them step by step
    may raise the mark by itself, and follow them only when it is not raised.
    """

    sql: str
    key: str
    mark: int


Steps: TypeAlias = Generator[Ask, Told, T]
