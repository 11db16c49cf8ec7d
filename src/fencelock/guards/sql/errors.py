"""Map the errors of databases and their drivers to ours: one table.

Nothing has happened in any case: the statement was part of a transaction that is not committed.

Passed on unchanged: deadlocks, serialization failures, and lock timeouts. After these the whole
transaction must be retried, and the caller or the toolkit that does so recognizes them by the
driver's own errors.
"""

from __future__ import annotations

import re
from typing import Any

from ...errors import Denied, EngineError, FencelockError, Misconfigured, Unavailable
from .dialects import READERS
from .steps import Table, readers_of

__all__ = ["message_of", "raise_mapped"]

_DATABASE_ERRORS = {"DatabaseError", "InterfaceError", "OSError", "PostgresError", "MySQLError"}
_UNREACHABLE = {"OperationalError", "InterfaceError", "OSError"}
_CLOSED = {"Connection closed", "no active connection"}  # aiosqlite's messages, in a ValueError

# SQLSTATEs of PostgreSQL; their first two characters are the class.
_PG_AGAIN = ("40", "55P03", "57014")
_PG_AWAY = ("08", "53", "57P", "25006", "58")
_PG_ABSENT = ("42P01", "42703", "3F000")

_MYSQL_AGAIN = {1020, 1205, 1213, 1317, 1969, 3024, 3572}
_MYSQL_ABSENT = {1054, 1146}
_MYSQL_DENIED = {1044, 1045, 1142, 1143, 1227}
_MYSQL_AWAY = {0, 1021, 1040, 1047, 1053, 1114, 1158, 1159, 1160, 1161, 1290, 1792, 1836, 1927}

_SQLITE_AGAIN = {5, 6}  # busy, locked
_SQLITE_AWAY = {7, 9, 10, 13, 14}  # out of memory, interrupt, I/O error, full, cannot open


# "LINE 1: UPDATE …" of PostgreSQL, with a caret below; and the column in an error message.
_PICTURE = re.compile(r"LINE \d+:")
_COLUMN = re.compile(r"(?i)column:? (?:named )?([\w.\"'`]+)")


def raise_mapped(error: Exception, where: Table) -> None:
    """Raise our error for an error of a database; return if it is passed on unchanged."""
    if isinstance(error, FencelockError):
        return
    found: Any = getattr(error, "orig", None) or error.__cause__ or error
    names = {kind.__name__ for kind in (*type(error).__mro__, *type(found).__mro__)}
    if not names & _DATABASE_ERRORS and str(error) not in _CLOSED:
        return  # not of a database: a mistake in the caller's parameters, or ours
    kind = _kind(found, names)
    if kind is None:
        return
    said = message_of(found)
    text = f"{where.name} could not be asked ({said})"
    raise kind(f"{text}; nothing happened{_advice(kind, where, said)}") from error


def message_of(error: BaseException) -> str:
    """Return the database's message in one line, without the excerpt of the statement."""
    lines = [line.strip() for line in str(error).splitlines()]
    kept = [line for line in lines if line.strip("^ ") and not _PICTURE.match(line)]
    return " ".join(kept) or type(error).__name__


def _advice(kind: type[EngineError], where: Table, said: str) -> str:
    if kind is Misconfigured and "column" in said.lower():
        return _advice_on_column(where, _COLUMN.search(said))
    if kind is Misconfigured:
        if where.column:
            return f". {where.name} must be the name of a table, as this connection sees it"
        return (
            ". Let a migration run what the guard's schema() prints, or call create() once; "
            f"{where.name} must be as the guard was told"
        )
    if kind is Denied:
        return f". Grant the account SELECT, INSERT, UPDATE and DELETE on {where.name}"
    return ". Roll back, and try again later" if kind is Unavailable else ". Roll back"


def _advice_on_column(where: Table, named: re.Match[str] | None) -> str:
    missing = named[1].rpartition(".")[2].strip("\"`'") if named else ""
    readers = readers_of(where.column) if where.column else READERS
    if missing.lower() in (column.lower() for column in readers):
        added = " and ".join(f"ADD COLUMN {column} bigint" for column in readers)
        create = "" if where.column else "call the guard's create(), or "
        return f". Readers need two more columns: {create}ALTER TABLE {where.name} {added}"
    if not where.column:
        return f". {where.name} is no table of marks: the guard's schema() prints how one is made"
    if missing.lower() != where.column.lower():
        return f". Name the columns of the row's key and of its values as {where.name} has them"
    return (
        ". Let a migration add the column of the row's fence: ALTER TABLE "
        f"{where.name} ADD COLUMN {where.column} bigint NOT NULL DEFAULT 0"
    )


def _kind(error: Any, names: set[str]) -> type[EngineError] | None:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return _of_sqlite(code & 0xFF, str(error))
    code = error.args[0] if error.args else None
    if isinstance(code, int) and "OSError" not in names:
        return _of_mysql(code)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(state, str):
        return _of_postgresql(state)
    if names & _UNREACHABLE or str(error) in _CLOSED or "closed" in str(error):
        return Unavailable
    return EngineError


def _of_postgresql(state: str) -> type[EngineError] | None:
    if state.startswith(_PG_AGAIN):
        return None
    if state.startswith(_PG_AWAY):
        return Unavailable
    if state in _PG_ABSENT:
        return Misconfigured
    return Denied if state == "42501" else EngineError


def _of_mysql(code: int) -> type[EngineError] | None:
    if code in _MYSQL_AGAIN:
        return None
    if code in _MYSQL_AWAY or 2000 <= code < 3000:
        return Unavailable
    if code in _MYSQL_ABSENT:
        return Misconfigured
    return Denied if code in _MYSQL_DENIED else EngineError


def _of_sqlite(code: int, text: str) -> type[EngineError] | None:
    if code in _SQLITE_AGAIN:
        return None
    if code in _SQLITE_AWAY:
        return Unavailable
    absent = text.startswith("no such") or "has no column" in text
    return Misconfigured if code == 1 and absent else EngineError
