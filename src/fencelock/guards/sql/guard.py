"""A table of marks: the guard for anything in a database that one transaction can change."""

from __future__ import annotations

from typing import Any

from ...errors import UsageError
from ..fence import FENCE_MAX, Claim, Fenced, claim
from . import dialects
from .adapters import link, shortcut
from .dialects import Dialect, Statements
from .names import check_identifier, check_name
from .steps import Ask, Entry, Steps, Table

__all__ = ["SqlGuard"]


class SqlGuard:
    """Keeps the highest fence of each name in a table of the database that it protects.

    ``enter`` is the first statement of the caller's own transaction. Every method takes the
    caller's connection, and returns something to await when that is one of asyncio.
    """

    def __init__(
        self, table: str = "fencelock_marks", epoch: int = 0, dialect: str | None = None
    ) -> None:
        claim(1, "any", epoch)  # says so if the epoch is none
        self.table = check_identifier(table, "table", dotted=True)
        self.epoch = epoch
        self._where = Table(table)
        self._dialect = dialects.find(dialect).name if dialect is not None else None
        self._said: dict[str, Statements] = {}

    def enter(self, connection: Any, lease: Fenced | int, name: str | None = None) -> Any:
        """Raise the mark to this fence, or raise StaleFence when a higher one was here before.

        Call it before anything is read or written in the transaction, and commit before the lock is
        released. Until the transaction ends nobody enters with another fence: they wait, and are
        then judged by what this one leaves behind.
        """
        found = claim(lease, name, self.epoch)
        short = shortcut(connection.__class__) if self._dialect is None else None
        if short is not None:
            dialect, change = short
            key, sql = _key(dialect, found.name), self._say(dialect).enter
            if change(connection, sql, (key, found.mark), self._where, True):
                return None
        over = link(connection, self._dialect)
        says, key = self._say(over.dialect), _key(over.dialect, found.name)
        steps = _enter(over.dialect, says, key, found)
        return over.run(steps, self._where, Entry(says.enter, key, found.mark))

    def mark(self, connection: Any, name: str) -> Any:
        """The mark of a name, in epoch 0 the highest fence that was seen; 0 when there is none."""
        claim(1, name)
        over = link(connection, self._dialect)
        ask = Ask(self._say(over.dialect).mark, {"name": _key(over.dialect, name)}, fetch=True)
        return over.run(_mark(ask), self._where)

    def reset(self, connection: Any, name: str, to: int = 0) -> Any:
        """Set the mark of a name, also to a smaller fence than it has seen. It counts from commit.

        For a name that has moved to another engine whose fences are smaller. Whoever still holds a
        lease of the old engine is accepted again: stop them first, or give all guards a new epoch
        instead, which needs no reset.
        """
        claim(1, name)
        found = claim(to, name, self.epoch) if to != 0 else Claim(name, 0, self.epoch)
        over = link(connection, self._dialect)
        says = self._say(over.dialect)
        values = {"name": _key(over.dialect, name), "mark": found.mark}
        return over.run(_tell(Ask(says.reset, values)), self._where)

    def forget(self, connection: Any, older_than_seconds: float) -> Any:
        """Remove the marks that nobody has raised for so long; returns how many.

        A holder that was frozen for longer than that is then **accepted** again, as if it were the
        first. So choose a time that no process and no message survives: days, not minutes. Time
        is told by the clock of the database. Call it in a transaction of its own.
        """
        seconds = _seconds(older_than_seconds)
        over = link(connection, self._dialect)
        ask = Ask(self._say(over.dialect).forget, {"seconds": seconds})
        return over.run(_count(ask), self._where)

    def schema(self, dialect: str | None = None) -> str:
        """The statement that makes the table, for a migration."""
        return self._say(dialects.find(dialect or self._dialect)).schema + ";"

    def create(self, connection: Any) -> Any:
        """Make the table if it is not there. It counts from commit.

        ``enter`` never does: MySQL would commit your transaction for it, and programs that only
        write need no right to create tables.
        """
        over = link(connection, self._dialect)
        if over.dialect.commits_on_create and over.is_open():
            raise UsageError(
                "create() was called inside of a transaction, which MySQL would commit: call it "
                "before one begins"
            )
        return over.run(_create(self._say(over.dialect)), self._where)

    def _say(self, dialect: Dialect) -> Statements:
        said = self._said.get(dialect.name)
        if said is None:
            said = self._said[dialect.name] = dialects.statements(dialect, self.table)
        return said


def _key(dialect: Dialect, name: str) -> str:
    """What is guarded, as the statements want it."""
    check_name(name)
    return name.encode().hex() if dialect is dialects.MYSQL else name


def _seconds(value: object) -> int:
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    if not whole or not 0 < value < FENCE_MAX:  # type: ignore[operator]  # a number by now
        raise UsageError(f"marks are forgotten after a number of seconds, not after {value!r}")
    return -int(-value // 1)  # type: ignore[operator]


def _enter(dialect: Dialect, says: Statements, key: str, found: Claim) -> Steps[None]:
    told = yield Ask(says.enter, {"name": key, "mark": found.mark})
    if dialect.remembers:
        if told.number != found.mark:
            raise found.stale(told.number or 0)
    elif told.changed != 1:
        told = yield Ask(says.highest, {"name": key}, fetch=True)
        raise found.stale(told.row[0] if told.row else 0)


def _mark(ask: Ask) -> Steps[int]:
    told = yield ask
    return int(told.row[0]) if told.row else 0


def _create(says: Statements) -> Steps[None]:
    if says.exists:
        told = yield Ask(says.exists, {}, fetch=True)
        if told.row is not None:
            return
    yield Ask(says.create, {})


def _count(ask: Ask) -> Steps[int]:
    told = yield ask
    return told.changed


def _tell(ask: Ask) -> Steps[None]:
    yield ask
