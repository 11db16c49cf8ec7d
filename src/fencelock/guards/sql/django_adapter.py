"""Execute over Django's connection: ``django.db.connection``, or one of ``connections``."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from ..runner import run
from . import dialects, errors, transactions
from .adapters import names_of, percent
from .steps import Result, Statement, Steps, Table

__all__ = ["DjangoAdapter"]

T = TypeVar("T")


class DjangoAdapter:
    """Executes through Django, which knows of the transaction and logs the statement."""

    def __init__(self, connection: Any, dialect: str | None) -> None:
        self.dialect = dialects.find(dialect or connection.vendor)
        self._connection = connection

    def is_open(self) -> bool | None:
        return bool(self._connection.in_atomic_block)

    def run(self, steps: Steps[T], table: Table, *, in_transaction: bool = False) -> T:
        try:
            if in_transaction:
                transactions.demand(self._belongs())
            with self._connection.cursor() as cursor:
                return run(steps, partial(_execute, cursor))
        except Exception as error:
            errors.raise_mapped(error, table)
            raise

    def _belongs(self) -> bool:
        return bool(self._connection.in_atomic_block) or not self._connection.get_autocommit()


def _execute(cursor: Any, statement: Statement) -> Result:
    if statement.parameters:
        cursor.execute(percent(statement.sql), dict(statement.parameters))
    else:
        cursor.execute(statement.sql)
    row, columns = (cursor.fetchone(), names_of(cursor)) if statement.fetch else (None, ())
    return Result(cursor.rowcount, getattr(cursor, "lastrowid", None), row, columns)
