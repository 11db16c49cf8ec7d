"""Read the statements in ``sql/*.sql``, and fill in the names of tables.

Names, owners and other text of users are parameters, never part of the SQL. Identifiers come from
the ``table`` and ``schema`` options, which ``settings.py`` has checked.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

SCHEMA = "public"
"""The schema of all tables unless another one is named. ``search_path`` does not decide it, since
that begins with a schema of the role's own: two roles would lock in two schemas and both hold."""
ADVISORY = f'"{SCHEMA}".fencelock_advisory'
"""The prefix of the objects that all advisory locks of a database share."""
LOCK_CLASS = 0x46454E43
"""The first key of our internal two-key advisory locks; locks of users have one 64-bit key."""

# The row of pg_locks that is the advisory lock of a 64-bit key.
_IS_KEY = """l.locktype = 'advisory' AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid::bigint = (h.key >> 32) & 4294967295 AND l.objid::bigint = h.key & 4294967295"""

FILLED_IN: dict[str, object] = {
    # The wall clock in microseconds, unless it claims the far future.
    "us": "least((date_part('epoch', clock_timestamp()) * 1000000)::bigint, 4503599627370495)",
    "is_key": _IS_KEY,
    "space": LOCK_CLASS,
    "queues": LOCK_CLASS + 1,  # the same, for the queues of names
    "claim": 0.5,  # seconds that a waiter has to claim a lock which it was handed
    "short": 10,  # seconds between two settles of a listener, which is notified of shorter leases
    "forget": 30,  # a waiter that was not seen for so many seconds is dead
    "unused": 60,  # a free row stays for so many seconds, in case the name is used again
    "tidy": 1000,  # rows that are removed at once
    "skip": 256,  # positions that may be empty before a queue's first one is looked up
}
_HEAD = re.compile(r"^-- statement: (\w+)(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


class Statement(NamedTuple):
    """One statement, and the name under which it is prepared; empty if it is not."""

    name: str
    sql: str
    kind: str = ""
    """Only statements of the same kind share a transaction."""


class Statements:
    """The statements of one SQL file, each an attribute."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Statement: ...

    def __init__(self, file: str, table: str, schema: str, counter: str = "") -> None:
        _, *parts = _HEAD.split(text_of(file))
        for name, words, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            sql = fill_in(_COMMENT.sub("", body).strip(), table, schema, counter)
            kind = words.partition("kind ")[2]
            setattr(
                self, name, Statement("" if "once" in words else f"fl_{file}_{name}", sql, kind)
            )


@cache
def text_of(file: str) -> str:
    """Return the text of a file in ``sql/``."""
    return (Path(__file__).parent / "sql" / f"{file}.sql").read_text(encoding="utf-8")


def fill_in(text: str, table: str, schema: str, counter: str = "") -> str:
    """Put names and numbers into an SQL text; ``counter`` is the prefix of a fence counter."""
    names = {"t": qualified(table, schema), "p": table, "c": counter}
    for word, value in {**FILLED_IN, **names}.items():
        text = text.replace(f"{{{word}}}", str(value))
    return text


def qualified(table: str, schema: str) -> str:
    """Return the prefix of the names of tables and functions."""
    return f'"{schema}".{table}'
