"""A guard over Django's connection: ``django.db.connection``, or one of ``connections``."""

from __future__ import annotations

from typing import Any, TypeVar

from . import dialects, errors, transactions
from .adapters import percent
from .steps import Ask, Entry, Steps, Table, Told

__all__ = ["DjangoLink"]

T = TypeVar("T")


class DjangoLink:
    """Asks through Django, which knows of the transaction and logs the statement."""

    def __init__(self, connection: Any, dialect: str | None) -> None:
        self.dialect = dialects.find(dialect or connection.vendor)
        self._connection = connection

    def is_open(self) -> bool | None:
        return bool(self._connection.in_atomic_block)

    def run(
        self, steps: Steps[T], where: Table, entry: Entry | None = None, *, within: bool = False
    ) -> T:
        try:
            if within or entry is not None:
                transactions.demand(self._belongs())
            with self._connection.cursor() as cursor:
                told: Told | None = None
                while True:
                    try:
                        ask = next(steps) if told is None else steps.send(told)
                    except StopIteration as end:
                        result: T = end.value
                        return result
                    told = _ask(cursor, ask)
        except Exception as error:
            errors.meet(error, where)
            raise

    def _belongs(self) -> bool:
        return bool(self._connection.in_atomic_block) or not self._connection.get_autocommit()


def _ask(cursor: Any, ask: Ask) -> Told:
    if ask.parameters:
        cursor.execute(percent(ask.sql), dict(ask.parameters))
    else:
        cursor.execute(ask.sql)
    row = cursor.fetchone() if ask.fetch else None
    return Told(cursor.rowcount, getattr(cursor, "lastrowid", None), row)
