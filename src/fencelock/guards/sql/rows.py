"""Keep the mark in a column of the row that it protects: check and write are one statement.

It protects this row and nothing else: a row has no mark before its insert or after its deletion. To
protect several rows or tables, use SqlGuard.

The column is the highest mark of all. For readers the row has two more: ``fence_write`` is the mark
of the writers, and ``fence_read`` is the mark to which that belongs. Without readers neither is
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ...errors import EngineError, UsageError
from ..fence import Claim, Fenced, MarkPair, claim
from . import dialects
from .adapters import adapt, change, shortcut
from .dialects import Dialect
from .names import check_identifier, quote
from .steps import Result, Statement, Steps, Table, readers_of

__all__ = ["MissingRow", "RowGuard"]

_ATTEMPTS = 3
_NONE: Mapping[str, object] = {}


class MissingRow(UsageError, LookupError):
    """There is no such row, so there is nothing to guard; nothing happened."""


class RowGuard:
    """Keeps the highest fence in a column of the row itself, an integer of 64 bits.

        ALTER TABLE stock ADD COLUMN fence bigint NOT NULL DEFAULT 0
        ALTER TABLE stock ADD COLUMN fence_read bigint      -- these two for readers only
        ALTER TABLE stock ADD COLUMN fence_write bigint

    ``key`` are the columns and values that identify the row: its primary key. For a bare fence it
    also serves as the name.
    """

    def __init__(
        self, table: str, column: str = "fence", epoch: int = 0, dialect: str | None = None
    ) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
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
        *,
        reading: bool = False,
    ) -> Any:
        """Raise the mark of the row before it is read, or raise StaleFence.

        The row is locked until the transaction ends, so any statement may change it then. Outside
        of a transaction it shuts out older holders, but only ``update`` is safe afterward.

        A reader is refused by a higher writer only. ``reading`` says of a bare fence that it is a
        read lock's; a lease says so itself.
        """
        _check_mapping(key)
        found = self._claim(lease, key, name, reading)
        if not found.reading:
            return self._update(connection, found, key, {})
        over = adapt(connection, self._dialect)
        rows = self._sql(over.dialect, key)
        return over.run(_enter_reading(over.dialect, rows, self.table, key, found), self._where)

    def update(
        self,
        connection: Any,
        lease: Fenced | int,
        key: Mapping[str, object],
        values: Mapping[str, object],
        name: str | None = None,
    ) -> Any:
        """Write values to the row and raise its mark, in one statement, or raise StaleFence.

        It needs no transaction, but is part of one that is open. MissingRow: there is no such row.
        """
        _check_mapping(key)
        _check_mapping(values)
        return self._update(connection, self._claim(lease, key, name).to_write(), key, values)

    def _claim(
        self,
        lease: Fenced | int,
        key: Mapping[str, object],
        name: str | None,
        reading: bool = False,
    ) -> Claim:
        if name is None and isinstance(lease, int):
            name = _which(self.table, key)
        return claim(lease, name, self.epoch, reading, "sql")

    def _update(
        self,
        connection: Any,
        found: Claim,
        key: Mapping[str, object],
        values: Mapping[str, object],
    ) -> Any:
        if self._dialect is None and (direct := shortcut(connection.__class__)) is not None:
            sql, mark = self._sql(direct, key, values).update, found.mark
            given = (*values.values(), mark, *key.values(), mark)
            if change(connection, direct, sql, given, self._where, in_transaction=False):
                return None
        over = adapt(connection, self._dialect)
        rows = self._sql(over.dialect, key, values)
        return over.run(_update(over.dialect, rows, self.table, key, values, found), self._where)

    def mark(self, connection: Any, key: Mapping[str, object], *, reading: bool = False) -> Any:
        """Return the mark of the row, in epoch 0 the highest fence that it has seen.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        _check_mapping(key)
        over = adapt(connection, self._dialect)
        steps = _mark(self._sql(over.dialect, key), self.table, key, reading)
        return over.run(steps, self._where)

    def reset(self, connection: Any, key: Mapping[str, object], to: int = 0) -> Any:
        """Set the mark of a row, even to a smaller fence than it has seen.

        Holders of a lease with a higher fence are accepted again: stop them first, or give all
        guards a new epoch instead.
        """
        found = claim(to, "row", self.epoch) if to != 0 else Claim("row", 0, self.epoch)
        over = adapt(connection, self._dialect)
        sql = self._sql(over.dialect, key)
        return over.run(_reset(sql, self.table, key, found.mark), self._where)

    def _sql(
        self, dialect: Dialect, key: Mapping[str, object], values: Mapping[str, object] = _NONE
    ) -> _RowSql:
        return _statements(dialect, self.table, self.column, tuple(key), tuple(values))


class _RowSql(NamedTuple):
    column: str
    update: str
    enter_reading: str
    look: str
    look_at_all: str
    """The query for the whole row, with the columns of readers if it has them."""
    reset: str
    reset_readers: str

    def marks(self, looked: Result) -> MarkPair:
        """Return the marks of a row, also of one without the columns of readers."""
        names = (name.lower() for name in looked.columns)
        row = dict(zip(names, looked.row or (), strict=True))
        read, write = (name.lower() for name in readers_of(self.column))
        highest = int(row[self.column.lower()] or 0)
        told = row.get(read) is not None and row[read] == highest
        return MarkPair(highest, int(row[write] or 0) if told else highest)


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
    for _ in range(_ATTEMPTS):  # more than one only if the row has just appeared
        if (yield Statement(sql.update, given)).changed > 0:
            return
        row = (yield Statement(sql.look + dialect.locked, which, fetch=True)).row
        if row is None:
            raise _missing(table, key)
        highest = int(row[0] or 0)
        if highest > found.mark:
            look = Statement(sql.look_at_all + dialect.locked, which, fetch=True)
            marks = sql.marks((yield look))
            raise found.stale(highest, "read" if marks.written < marks.highest else "write")
        if highest == found.mark and not dialect.counts_matched:
            return  # found, and already up to date
    raise _unsteady(table, key)


def _enter_reading(
    dialect: Dialect, sql: _RowSql, table: str, key: Mapping[str, object], found: Claim
) -> Steps[None]:
    which = _parameters("k", key)
    for _ in range(_ATTEMPTS):
        if (yield Statement(sql.enter_reading, {**which, "mark": found.mark})).changed > 0:
            return
        looked = yield Statement(sql.look_at_all + dialect.locked, which, fetch=True)
        if looked.row is None:
            raise _missing(table, key)
        marks = sql.marks(looked)
        if marks.admit(found) == marks and not dialect.counts_matched:
            return  # found, and already up to date
    raise _unsteady(table, key)


def _missing(table: str, key: Mapping[str, object]) -> MissingRow:
    return MissingRow(f"there is no row {_which(table, key)}; nothing was changed")


def _unsteady(table: str, key: Mapping[str, object]) -> EngineError:
    return EngineError(
        f"the row {_which(table, key)} is inserted and deleted by others; nothing changed. "
        "Roll back"
    )


def _mark(sql: _RowSql, table: str, key: Mapping[str, object], reading: bool) -> Steps[int]:
    query = sql.look_at_all if reading else sql.look
    looked = yield Statement(query, _parameters("k", key), fetch=True)
    if looked.row is None:
        raise MissingRow(f"there is no row {_which(table, key)}")
    return sql.marks(looked).of(reading)


def _reset(sql: _RowSql, table: str, key: Mapping[str, object], mark: int) -> Steps[None]:
    which = _parameters("k", key)
    looked = yield Statement(sql.look_at_all, which, fetch=True)
    if looked.row is None:
        raise MissingRow(f"there is no row {_which(table, key)}")
    yield Statement(sql.reset, {**which, "mark": mark})
    if readers_of(sql.column)[0].lower() in (name.lower() for name in looked.columns):
        yield Statement(sql.reset_readers, which)


def _parameters(letter: str, given: Mapping[str, object]) -> dict[str, object]:
    return {f"{letter}{number}": value for number, value in enumerate(given.values())}


@lru_cache(maxsize=256)
def _statements(
    dialect: Dialect, table: str, fence: str, key: tuple[str, ...], values: tuple[str, ...]
) -> _RowSql:
    """Return the statements for one row, with checked and quoted identifiers."""
    quotes = dialect.quotes
    if not key:
        raise UsageError("a row is found by at least one column: pass key={'id': ...}")
    given = {str(column).lower() for column in values}
    for own in (fence, *readers_of(fence)):
        if own.lower() in given:
            raise UsageError(f"the column {own!r} is the guard's own: leave it out of the values")

    def quoted(columns: tuple[str, ...]) -> list[str]:
        return [quote(check_identifier(column, "column"), quotes) for column in columns]

    t, f = quote(table, quotes), quote(fence, quotes)
    read, write = (quote(column, quotes) for column in readers_of(fence))
    highest = f"{dialect.greatest}(COALESCE({f}, 0), :mark)"
    written = f"CASE WHEN {read} = {f} THEN {write} ELSE COALESCE({f}, 0) END"
    where = " AND ".join(f"{column} = :k{n}" for n, column in enumerate(quoted(key)))
    assigned = "".join(f"{column} = :v{n}, " for n, column in enumerate(quoted(values)))
    return _RowSql(
        column=fence,
        update=f"UPDATE {t} SET {assigned}{f} = :mark WHERE {where} AND COALESCE({f}, 0) <= :mark",
        # In an order in which no expression uses an assigned column: MySQL would use the new value.
        enter_reading=(
            f"UPDATE {t} SET {write} = {written}, {read} = {highest}, {f} = {highest} "
            f"WHERE {where} AND {written} <= :mark"
        ),
        look=f"SELECT {f} FROM {t} WHERE {where}",
        look_at_all=f"SELECT * FROM {t} WHERE {where}",
        reset=f"UPDATE {t} SET {f} = :mark WHERE {where}",
        reset_readers=f"UPDATE {t} SET {read} = NULL WHERE {where}",
    )


def check_writer(found: Claim) -> Claim:
    """Return a writer's claim; refuse a reader's, as mapped classes and models have one mark."""
    if found.reading:
        raise UsageError(
            f"{found.name!r} is held for reading, and a class with a fence keeps one mark, which "
            "admits writers only: let RowGuard(table).enter(connection, lease, key) admit readers "
            "of its rows, which needs the columns fence_read and fence_write"
        )
    return found


def _check_mapping(given: object) -> None:
    if not isinstance(given, Mapping):
        raise UsageError(
            f"columns and their values are told as {{'id': 42}}, not as {given!r:.100}"
        )


def _which(table: str, key: Mapping[str, object]) -> str:
    return f"{table} {', '.join(f'{column}={value!r}' for column, value in key.items())}"
