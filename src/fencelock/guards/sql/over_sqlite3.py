"""sqlite3: what a guard changes takes one call of the driver.

A change of a SQLite file takes so little time that what surrounds it counts.
"""

from __future__ import annotations

from typing import Any

from . import errors, transactions
from .adapters import Shortcut, positional
from .steps import Table

__all__ = ["shortcut"]


def shortcut(_: type[Any]) -> Shortcut:
    """For every connection of Python's own sqlite3."""
    return _change


def _change(connection: Any, sql: str, values: tuple[Any, ...], where: Table, enters: bool) -> bool:
    try:
        if enters and not connection.in_transaction:
            transactions.demand(transactions.may_change(connection))
        changed: int = connection.execute(positional(sql, True)[0], values).rowcount
    except Exception as error:
        errors.meet(error, where)
        raise
    return changed > 0
