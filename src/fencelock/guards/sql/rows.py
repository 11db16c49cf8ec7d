"""Keep the mark in a column of the row that it protects: check and write are one statement.

It protects this row and nothing else: a row that is inserted or deleted has no mark before or
afterward. What concerns several rows or tables is for SqlGuard.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import EngineError, UsageError
from ..fence import Claim, Fenced, claim
from . import dialects
from .adapters import adapt, change, shortcut
from .dialects import Dialect
from .names import check_identifier, quote
from .steps import Statement, Steps, Table

__all__ = ["MissingRow", "RowGuard"]

_ATTEMPTS = 3
_NONE: Mapping[str, object] = {}


class MissingRow(UsageError, LookupError):
    """There is no such row, so there is nothing to guard; nothing happened."""


class RowGuard:
    """Keeps the highest fence in a column of the row itself, an integer of 64 bits.

        ALTER TABLE stock ADD COLUMN fence bigint NOT NULL DEFAULT 0

    ``key`` are the columns and values that say which row: its primary key. It also says what a bare
    fence is for, so that needs no name.
    """

    def __init__(
        self, table: str, column: str = "fence", epoch: int = 0, dialect: str | None = None
    ) -> None:
        claim(1, "any", epoch)  # says so if the epoch is none
        self.table = check_identifier(table, "table", dotted=True)
        self.column = check_identifier(column, "column")
        self.epoch = epoch
        self._where = Table(table, column)
        self._dialect = dialects.find(dialect).name if dialect is not None else None

    def enter(
        self,
        connection: Any,
        lease: Fenced | int,
        key: Mapping[str, object],
        name: str | None = None,
    ) -> Any:
        """Raise the mark of the row before it is read, or raise StaleFence.

        The row is locked until the transaction ends, so any statement may change it then. Outside
        of a transaction it shuts older holders out, but only ``update`` is safe afterward.
        """
        return self.update(connection, lease, key, {}, name)

    def update(
        self,
        connection: Any,
        lease: Fenced | int,
        key: Mapping[str, object],
        values: Mapping[str, object],
        name: str | None = None,
    ) -> Any:
        """Write values to the row and raise its mark, in one statement, or raise StaleFence.

        Needs no transaction, and belongs to the one that is open. MissingRow: there is no such row.
        """
        _check_mapping(key)
        _check_mapping(values)
        if name is None and isinstance(lease, int):
            name = _which(self.table, key)
        found = claim(lease, name, self.epoch)
        if self._dialect is None and (direct := shortcut(connection.__class__)) is not None:
            sql, mark = self._sql(direct, key, values).update, found.mark
            given = (*values.values(), mark, *key.values(), mark)
            if change(connection, direct, sql, given, self._where, in_transaction=False):
                return None
        over = adapt(connection, self._dialect)
        rows = self._sql(over.dialect, key, values)
        return over.run(_update(over.dialect, rows, self.table, key, values, found), self._where)

    def mark(self, connection: Any, key: Mapping[str, object]) -> Any:
        """The mark of the row, in epoch 0 the highest fence that it has seen."""
        _check_mapping(key)
        over = adapt(connection, self._dialect)
        return over.run(_mark(self._sql(over.dialect, key), self.table, key), self._where)

    def reset(self, connection: Any, key: Mapping[str, object], to: int = 0) -> Any:
        """Set the mark of a row, also to a smaller fence than it has seen.

        Whoever still holds a lease with a fence above is accepted again: stop them first, or give
        all guards a new epoch instead.
        """
        found = claim(to, "row", self.epoch) if to != 0 else Claim("row", 0, self.epoch)
        over = adapt(connection, self._dialect)
        sql = self._sql(over.dialect, key)
        return over.run(_reset(sql, self.table, key, found.mark), self._where)

    def _sql(
        self, dialect: Dialect, key: Mapping[str, object], values: Mapping[str, object] = _NONE
    ) -> _RowSql:
        return _statements(dialect.quotes, self.table, self.column, tuple(key), tuple(values))


class _RowSql(NamedTuple):
    update: str
    look: str
    reset: str


def _update(
    dialect: Dialect,
    sql: _RowSql,
    table: str,
    key: Mapping[str, object],
    values: Mapping[str, object],
    found: Claim,
) -> Steps[None]:
    which = _parameters("k", key)
    given = {**which, **_parameters("v", values), "mark": found.mark}
    for _ in range(_ATTEMPTS):  # more than one only when the row appears just now
        if (yield Statement(sql.update, given)).changed > 0:
            return
        row = (yield Statement(sql.look + dialect.locked, which, fetch=True)).row
        if row is None:
            raise MissingRow(f"there is no row {_which(table, key)}; nothing was changed")
        highest = int(row[0] or 0)
        if highest > found.mark:
            raise found.stale(highest)
        if highest == found.mark and not dialect.counts_matched:
            return  # found, and like this already
    raise EngineError(
        f"the row {_which(table, key)} comes and goes; nothing was changed. Roll back"
    )


def _mark(sql: _RowSql, table: str, key: Mapping[str, object]) -> Steps[int]:
    row = (yield Statement(sql.look, _parameters("k", key), fetch=True)).row
    if row is None:
        raise MissingRow(f"there is no row {_which(table, key)}")
    return int(row[0] or 0)


def _reset(sql: _RowSql, table: str, key: Mapping[str, object], mark: int) -> Steps[None]:
    yield from _mark(sql, table, key)
    yield Statement(sql.reset, {**_parameters("k", key), "mark": mark})


def _parameters(letter: str, given: Mapping[str, object]) -> dict[str, object]:
    return {f"{letter}{number}": value for number, value in enumerate(given.values())}


@lru_cache(maxsize=256)
def _statements(
    quotes: str, table: str, fence: str, key: tuple[str, ...], values: tuple[str, ...]
) -> _RowSql:
    """The statements for one row, its identifiers checked and quoted."""
    if not key:
        raise UsageError("a row is found by at least one column: pass key={'id': ...}")
    if fence.lower() in (str(column).lower() for column in values):
        raise UsageError(f"the column {fence!r} is the guard's own: leave it out of the values")

    def quoted(columns: tuple[str, ...]) -> list[str]:
        return [quote(check_identifier(column, "column"), quotes) for column in columns]

    t, f = quote(table, quotes), quote(fence, quotes)
    where = " AND ".join(f"{column} = :k{n}" for n, column in enumerate(quoted(key)))
    assigned = "".join(f"{column} = :v{n}, " for n, column in enumerate(quoted(values)))
    return _RowSql(
        update=f"UPDATE {t} SET {assigned}{f} = :mark WHERE {where} AND COALESCE({f}, 0) <= :mark",
        look=f"SELECT {f} FROM {t} WHERE {where}",
        reset=f"UPDATE {t} SET {f} = :mark WHERE {where}",
    )


def _check_mapping(given: object) -> None:
    if not isinstance(given, Mapping):
        raise UsageError(
            f"columns and their values are told as {{'id': 42}}, not as {given!r:.100}"
        )


def _which(table: str, key: Mapping[str, object]) -> str:
    return f"{table} {', '.join(f'{column}={value!r}' for column, value in key.items())}"
