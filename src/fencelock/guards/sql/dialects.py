"""The statements of each kind of database, and what their results mean.

All are one statement each. ``enter`` locks the row of the name until the transaction ends, whether
it raises the mark or not, so that whoever comes with another fence waits and then sees this one.

MySQL tells of an upsert neither the row nor, for certain, whether it changed: the count depends on
a flag of the connection. So it is made to remember the mark, which it then tells with the answer.
Names go there as hexadecimal text: their bytes are compared, and no escaping is relied on.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import UsageError
from .names import quote

__all__ = ["READERS", "Dialect", "Statements", "find", "statements"]

READERS = ("read_mark", "write_mark")


class Dialect(NamedTuple):
    """How one kind of database says it; ``{t}`` is the table of the marks."""

    name: str
    quotes: str
    schema: str
    enter: str
    """For a writer. It knows of no readers, so that it works on a table that was made before there
    were any: ``mark`` is the highest of all."""
    enter_reading: str
    key: str
    """The parameter ``:name`` as the column has it."""
    now: str
    """Seconds by the clock of the database."""
    greatest: str = "GREATEST"
    locked: str = ""
    """What has a question see the newest row, whatever the transaction has seen before."""
    remembers: bool = False
    """``enter`` tells the mark that is there now as a number, and not by a count."""
    counts_matched: bool = True
    """A row that an UPDATE found is counted, though it was like this already."""
    commits_on_create: bool = False


def _upsert_reading(insert: str, old: str, greatest: str) -> str:
    """A reader raises ``mark`` and keeps in ``write_mark`` what that was among writers.

    ``read_mark`` says of which mark this was told: a writer that came since has left another.
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
    quotes="`",  # an unknown column in double quotes would be taken for a text
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
        ") WITH (fillfactor = 50)"  # room for the next version of a row beside it
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
    # It tells the mark of the writers. MySQL assigns from left to right, and what follows uses what
    # was assigned before: first write_mark, by which the others decide, then mark.
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
    """What is said about one table of marks."""

    schema: str
    exists: str
    """Asked before ``create`` where that would warn; else empty."""
    create: str
    columns: str
    """Asked after ``create``: a table that was made before there were readers lacks two."""
    extend: tuple[str, ...]
    enter: str
    enter_reading: str
    look: str
    """All columns, whichever there are."""
    look_locked: str
    reset: str
    reset_readers: str
    forget: str


def find(name: object) -> Dialect:
    """The dialect of that name."""
    found = _ALL.get(name) if isinstance(name, str) else None
    if found is None:
        what = "name a dialect" if name is None else f"there is no dialect {name!r}"
        raise UsageError(f"{what}: it is one of {', '.join(_ALL)}")
    return found


def statements(dialect: Dialect, table: str) -> Statements:
    """The statements for a table whose name has been checked."""
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
    """Add the columns of the readers."""
    if dialect is POSTGRESQL:
        more = (f"ADD COLUMN IF NOT EXISTS {column} bigint" for column in READERS)
        return (_alone(f"ALTER TABLE {t} {', '.join(more)}", table),)
    return tuple(f"ALTER TABLE {t} ADD COLUMN {column} BIGINT" for column in READERS)


def _alone(schema: str, table: str) -> str:
    """PostgreSQL fails when two create the same table at once, though each says IF NOT EXISTS."""
    lock = f"PERFORM pg_advisory_xact_lock(hashtext('fencelock {table}'));"
    return f"DO $fencelock$ BEGIN {lock} {schema}; END $fencelock$"


def _exists(table: str) -> str:
    """MySQL sends a note when the table is there, which drivers make a warning of."""
    home, _, name = table.rpartition(".")
    where = f"table_schema = {repr(home) if home else 'DATABASE()'} AND table_name = {name!r}"
    return f"SELECT 1 FROM information_schema.tables WHERE {where}"
