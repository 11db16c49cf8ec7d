"""Keep the marks in a table: the guard for any changes of one transaction."""

from __future__ import annotations

from math import ceil
from typing import Any

from ...errors import UsageError
from ..fence import Claim, Fenced, MarkPair, check_age, claim
from . import dialects
from .adapters import adapt, change, shortcut
from .dialects import Dialect, Statements
from .names import check_identifier, check_name
from .steps import Result, Statement, Steps, Table

__all__ = ["SqlGuard"]


class SqlGuard:
    """Keeps the marks of each name in a table of the database that it protects.

    ``enter`` is the first statement of the caller's own transaction. Every method takes the
    caller's connection, and returns an awaitable if that is asyncio's.
    """

    def __init__(
        self, table: str = "fencelock_marks", epoch: int = 0, dialect: str | None = None
    ) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        self.table = check_identifier(table, "table", dotted=True)
        self.epoch = epoch
        self._where = Table(table)
        self._dialect = dialects.find(dialect).name if dialect is not None else None
        self._statements: dict[str, Statements] = {}

    def enter(
        self,
        connection: Any,
        lease: Fenced | int,
        name: str | None = None,
        *,
        reading: bool = False,
    ) -> Any:
        """Raise the mark to this fence, or raise StaleFence if the mark is higher.

        Call it before anything is read or written in the transaction, and commit before the lock is
        released. Until the transaction ends, other calls for the name wait; they are then checked
        against the mark that this one leaves.

        A reader is refused by a higher writer only. ``reading`` says of a bare fence that it is a
        read lock's; a lease says so itself.
        """
        found = claim(lease, name, self.epoch, reading, "sql")
        direct = shortcut(connection.__class__) if self._dialect is None else None
        if direct is not None and not found.reading:
            sql, values = self._sql(direct).enter, (check_name(found.name), found.mark)
            if change(connection, direct, sql, values, self._where, in_transaction=True):
                return None
        over = adapt(connection, self._dialect)
        key = _key(over.dialect, found.name)
        enter = _enter_reading if found.reading else _enter
        steps = enter(over.dialect, self._sql(over.dialect), key, found)
        return over.run(steps, self._where, in_transaction=True)

    def mark(self, connection: Any, name: str, *, reading: bool = False) -> Any:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        claim(1, name)
        over = adapt(connection, self._dialect)
        query = Statement(
            self._sql(over.dialect).look, {"name": _key(over.dialect, name)}, fetch=True
        )
        return over.run(_mark(query, reading), self._where)

    def reset(self, connection: Any, name: str, to: int = 0) -> Any:
        """Set the mark of a name on commit, even to a smaller fence than it has seen.

        For a name that has moved to another engine whose fences are smaller. Holders of a lease of
        the old engine are accepted again: stop them first, or give all guards a new epoch instead,
        which needs no reset.
        """
        claim(1, name)
        found = claim(to, name, self.epoch) if to != 0 else Claim(name, 0, self.epoch)
        over = adapt(connection, self._dialect)
        key = _key(over.dialect, name)
        return over.run(_reset(self._sql(over.dialect), key, found.mark), self._where)

    def forget(self, connection: Any, older_than_seconds: float) -> Any:
        """Remove the marks that were not raised for so many seconds; return how many.

        A holder that was frozen for longer than that is then **accepted** again, as if it were the
        first. So choose a time that no process and no message survives: days, not minutes. The time
        is that of the database's clock. Call it in a transaction of its own.
        """
        seconds = ceil(check_age(older_than_seconds))
        over = adapt(connection, self._dialect)
        delete = Statement(self._sql(over.dialect).forget, {"seconds": seconds})
        return over.run(_change(delete), self._where)

    def schema(self, dialect: str | None = None) -> str:
        """Return the statement that creates the table, for a migration."""
        return self._sql(dialects.find(dialect or self._dialect)).schema + ";"

    def create(self, connection: Any) -> Any:
        """Create the table if it does not exist, or add the columns of readers to an older one.

        It takes effect on commit.

        ``enter`` never creates it: MySQL would commit your transaction for that, and programs that
        only write need no right to create tables.
        """
        over = adapt(connection, self._dialect)
        if over.dialect.commits_on_create and over.is_open():
            raise UsageError(
                "create() was called inside of a transaction, which MySQL would commit: call it "
                "before one begins"
            )
        return over.run(_create(self._sql(over.dialect)), self._where)

    def _sql(self, dialect: Dialect) -> Statements:
        found = self._statements.get(dialect.name)
        if found is None:
            found = self._statements[dialect.name] = dialects.statements(dialect, self.table)
        return found


def _key(dialect: Dialect, name: str) -> str:
    """Return a guarded name in the form of the statements' parameter."""
    check_name(name)
    return name.encode().hex() if dialect is dialects.MYSQL else name


def _enter(dialect: Dialect, sql: Statements, key: str, found: Claim) -> Steps[None]:
    result = yield Statement(sql.enter, {"name": key, "mark": found.mark})
    if dialect.remembers:
        if result.last_insert_id == found.mark:
            return
    elif result.changed == 1:
        return
    marks = _marks((yield Statement(sql.look_locked, {"name": key}, fetch=True)))
    raise found.stale(marks.highest, "read" if marks.written < marks.highest else "write")


def _enter_reading(dialect: Dialect, sql: Statements, key: str, found: Claim) -> Steps[None]:
    result = yield Statement(sql.enter_reading, {"name": key, "mark": found.mark})
    if dialect.remembers:
        if (result.last_insert_id or 0) > found.mark:
            raise found.stale(result.last_insert_id or 0)
    elif result.changed != 1:
        marks = _marks((yield Statement(sql.look_locked, {"name": key}, fetch=True)))
        raise found.stale(marks.written)


def _marks(looked: Result) -> MarkPair:
    """Return the marks of a row, also of a table without the columns of readers."""
    row: dict[str, Any] = dict(zip(looked.columns, looked.row or (), strict=False))
    highest = int(row.get("mark") or 0)
    told = row.get("read_mark") == highest
    return MarkPair(highest, int(row.get("write_mark") or 0) if told else highest)


def _mark(query: Statement, reading: bool) -> Steps[int]:
    return _marks((yield query)).of(reading)


def _create(sql: Statements) -> Steps[None]:
    exists = (yield Statement(sql.exists, {}, fetch=True)).row if sql.exists else None
    if exists is None:
        yield Statement(sql.create, {})
    there = (yield Statement(sql.columns, {}, fetch=True)).columns
    if not set(dialects.READERS) <= set(there):
        for statement in sql.extend:
            yield Statement(statement, {})


def _change(statement: Statement) -> Steps[int]:
    result = yield statement
    return result.changed


def _reset(sql: Statements, key: str, mark: int) -> Steps[None]:
    yield Statement(sql.reset, {"name": key, "mark": mark})
    looked = yield Statement(sql.look_locked, {"name": key}, fetch=True)
    if "read_mark" in looked.columns:
        yield Statement(sql.reset_readers, {"name": key})
