"""The statements for each kind of database.

Each operation is one statement. ``enter`` locks the row of the name until the transaction ends,
whether it raises the mark or not, so that an ``enter`` with another fence waits and then reads this
one.

MySQL returns for an upsert neither the row nor, reliably, whether it changed: the count depends on
a flag of the connection. So the statement stores the mark with LAST_INSERT_ID, which the reply
contains. Names are sent to MySQL as hexadecimal text: their bytes are compared, and nothing depends
on escaping.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import UsageError
from .names import quote

__all__ = ["READERS", "Dialect", "Statements", "find", "statements"]

READERS = ("read_mark", "write_mark")


class Dialect(NamedTuple):
    """The SQL of one kind of database; ``{t}`` is the table of the marks."""

    name: str
    quotes: str
    schema: str
    enter: str
    """For a writer. It does not use the columns of readers, so that it works on a table that was
    created without them: ``mark`` is the highest of all."""
    enter_reading: str
    key: str
    """The expression for ``:name`` in the form of the column."""
    now: str
    """The expression for the seconds of the database's clock."""
    greatest: str = "GREATEST"
    locked: str = ""
    """The suffix with which a query reads the newest row, whatever the transaction read before."""
    remembers: bool = False
    """Whether ``enter`` returns the present mark as LAST_INSERT_ID, not a count of rows."""
    counts_matched: bool = True
    """Whether an UPDATE counts a row that it found but did not change."""
    commits_on_create: bool = False


def _upsert_reading(insert: str, old: str, greatest: str) -> str:
    """Return a reader's upsert: it raises ``mark``, and keeps the writers' mark in ``write_mark``.

    ``read_mark`` is the mark to which ``write_mark`` belongs: a later writer leaves another mark.
    """
    highest = f"{greatest}({old}mark, excluded.mark)"
    written = f"CASE WHEN {old}read_mark = {old}mark THEN {old}write_mark ELSE {old}mark END"
    return (
        f"{insert} (name, mark, seen_at, read_mark, write_mark) "
        "VALUES (:name, :mark, {now}, :mark, 0) ON CONFLICT (name) DO UPDATE SET "
        f"mark = {highest}, seen_at = excluded.seen_at, read_mark = {highest}, "
        f"write_mark = {written} WHERE {written} <= excluded.mark"
    )


SQLITE = Dialect(
    name="sqlite",
    quotes="`",  # an unknown column in double quotes would be taken for a string
    schema=(
        "CREATE TABLE IF NOT EXISTS {t} (\n"
        "  name TEXT NOT NULL PRIMARY KEY,\n"
        "  mark INTEGER NOT NULL,\n"
        "  seen_at INTEGER NOT NULL,\n"
        "  read_mark INTEGER,\n"
        "  write_mark INTEGER\n"
        ") WITHOUT ROWID"
    ),
    enter=(
        "INSERT INTO {t} (name, mark, seen_at) VALUES (:name, :mark, {now}) "
        "ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at "
        "WHERE mark <= excluded.mark"
    ),
    enter_reading=_upsert_reading("INSERT INTO {t}", "", "max"),
    key=":name",
    greatest="max",
    now="CAST((julianday('now') - 2440587.5) * 86400 AS INTEGER)",  # unixepoch() is of 3.38
)
POSTGRESQL = Dialect(
    name="postgresql",
    quotes='"',
    schema=(
        "CREATE TABLE IF NOT EXISTS {t} (\n"
        '  name text COLLATE "C" NOT NULL PRIMARY KEY,\n'
        "  mark bigint NOT NULL,\n"
        "  seen_at bigint NOT NULL,\n"
        "  read_mark bigint,\n"
        "  write_mark bigint\n"
        ") WITH (fillfactor = 50)"  # room for the next version of a row on its page
    ),
    enter=(
        "INSERT INTO {t} AS m (name, mark, seen_at) VALUES (:name, :mark, {now}) "
        "ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at "
        "WHERE m.mark <= excluded.mark"
    ),
    enter_reading=_upsert_reading("INSERT INTO {t} AS m", "m.", "GREATEST"),
    key=":name",
    now="CAST(date_part('epoch', now()) AS bigint)",  # extract() would count in decimals, slowly
)
MYSQL = Dialect(
    name="mysql",
    quotes="`",
    schema=(
        "CREATE TABLE IF NOT EXISTS {t} (\n"
        "  name VARBINARY(512) NOT NULL PRIMARY KEY,\n"
        "  mark BIGINT NOT NULL,\n"
        "  seen_at BIGINT NOT NULL,\n"
        "  read_mark BIGINT,\n"
        "  write_mark BIGINT\n"
        ") ENGINE = InnoDB ROW_FORMAT = DYNAMIC"
    ),
    enter=(
        "INSERT INTO {t} (name, mark, seen_at) "
        "VALUES (UNHEX(:name), LAST_INSERT_ID(:mark), {now}) ON DUPLICATE KEY UPDATE "
        "seen_at = IF(:mark >= mark, {now}, seen_at), "
        "mark = LAST_INSERT_ID(GREATEST(mark, :mark))"
    ),
    # It returns the mark of the writers. MySQL assigns from left to right, and later expressions
    # use the new values: first write_mark, on which the others depend, then mark.
    enter_reading=(
        "INSERT INTO {t} (name, mark, seen_at, read_mark, write_mark) "
        "VALUES (UNHEX(:name), :mark, {now}, :mark, LAST_INSERT_ID(0)) ON DUPLICATE KEY UPDATE "
        "write_mark = LAST_INSERT_ID(IF(read_mark = mark, write_mark, mark)), "
        "seen_at = IF(write_mark <= :mark, {now}, seen_at), "
        "mark = IF(write_mark <= :mark, GREATEST(mark, :mark), mark), "
        "read_mark = IF(write_mark <= :mark, mark, read_mark)"
    ),
    key="UNHEX(:name)",
    now="UNIX_TIMESTAMP()",
    locked=" FOR UPDATE",
    remembers=True,
    counts_matched=False,
    commits_on_create=True,
)
_ALL = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}


class Statements(NamedTuple):
    """The statements for one table of marks."""

    schema: str
    exists: str
    """The query before ``create`` where that would warn; else empty."""
    create: str
    columns: str
    """The query after ``create`` for the columns: an older table lacks the two of readers."""
    extend: tuple[str, ...]
    enter: str
    enter_reading: str
    look: str
    """The query for all columns of a name, with those of readers or without."""
    look_locked: str
    reset: str
    reset_readers: str
    forget: str


def find(name: object) -> Dialect:
    """Return the dialect of that name."""
    found = _ALL.get(name) if isinstance(name, str) else None
    if found is None:
        what = "name a dialect" if name is None else f"there is no dialect {name!r}"
        raise UsageError(f"{what}: it is one of {', '.join(_ALL)}")
    return found


def statements(dialect: Dialect, table: str) -> Statements:
    """Return the statements for a table whose name has been checked."""
    t, now, key = quote(table, dialect.quotes), dialect.now, dialect.key
    schema = dialect.schema.format(t=t)
    look = f"SELECT * FROM {t} WHERE name = {key}"
    write = f"INSERT INTO {t} (name, mark, seen_at) VALUES ({key}, :mark, {now}) "
    if dialect is MYSQL:
        write += f"ON DUPLICATE KEY UPDATE mark = :mark, seen_at = {now}"
    else:
        write += "ON CONFLICT (name) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at"
    return Statements(
        schema=schema,
        exists=_exists(table) if dialect is MYSQL else "",
        create=_alone(schema, table) if dialect is POSTGRESQL else schema,
        columns=f"SELECT * FROM {t} WHERE 1 = 0",
        extend=_extend(t, table, dialect),
        enter=dialect.enter.format(t=t, now=now),
        enter_reading=dialect.enter_reading.format(t=t, now=now),
        look=look,
        look_locked=look + dialect.locked,
        reset=write,
        reset_readers=f"UPDATE {t} SET read_mark = NULL WHERE name = {key}",
        forget=f"DELETE FROM {t} WHERE seen_at < {now} - :seconds",
    )


def _extend(t: str, table: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that add the columns of readers."""
    if dialect is POSTGRESQL:
        more = (f"ADD COLUMN IF NOT EXISTS {column} bigint" for column in READERS)
        return (_alone(f"ALTER TABLE {t} {', '.join(more)}", table),)
    return tuple(f"ALTER TABLE {t} ADD COLUMN {column} BIGINT" for column in READERS)


def _alone(schema: str, table: str) -> str:
    """Wrap DDL in an advisory lock: a concurrent IF NOT EXISTS fails in PostgreSQL."""
    lock = f"PERFORM pg_advisory_xact_lock(hashtext('fencelock {table}'));"
    return f"DO $fencelock$ BEGIN {lock} {schema}; END $fencelock$"


def _exists(table: str) -> str:
    """Return the query for a table: MySQL's note that it exists would become a driver's warning."""
    home, _, name = table.rpartition(".")
    where = f"table_schema = {repr(home) if home else 'DATABASE()'} AND table_name = {name!r}"
    return f"SELECT 1 FROM information_schema.tables WHERE {where}"
