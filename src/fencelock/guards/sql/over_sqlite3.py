"""sqlite3: a guard is entered with one call of the driver, and the steps are left for a refusal.

A change of a SQLite file takes so little time that what surrounds it counts.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar, cast

from . import failures, transactions
from .links import DriverLink, positional
from .steps import Entry, Steps

__all__ = ["Sqlite3Link"]

T = TypeVar("T")


class Sqlite3Link(DriverLink):
    """Asks over a connection of Python's own sqlite3."""

    def run(self, steps: Steps[T], where: str, entry: Entry | None = None) -> T | Awaitable[T]:
        if entry is None:
            return super().run(steps, where)
        connection = self._connection
        try:
            if not connection.in_transaction:
                transactions.demand(transactions.may_change(connection))
            sql, _ = positional(entry.sql, True)
            if connection.execute(sql, (entry.key, entry.mark)).rowcount == 1:
                return cast("T", None)  # the steps would end like this
        except Exception as error:
            failures.meet(error, where)
            raise
        return super().run(steps, where, entry)
