"""The tables in ``sql/schema.sql``: printed by ``fencelock schema mysql``, or made at first use.

Names are ``VARBINARY``: every text collation takes some pair of different names as equal. Times are
microseconds of the server's clock since 1970, in UTC whatever the time zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ...errors import Misconfigured
from .._sql.sections import sections

TABLE = "fencelock"
DATABASE = "fencelock"
"""The database of ``mode=advisory``'s tables, whatever database the URL names.

``GET_LOCK`` is the whole server's: clients that exclude each other must share one fence counter."""
ADVISORY = f"{DATABASE}.advisory"

_TABLES = sections(Path(__file__).parent / "sql" / "schema.sql")

NEEDED = {
    "lease": ("locks", "renewals", "waiters", "revoked", "fence"),
    "shares": ("share_names", "shares", "share_queue", "memos", "changes"),
    "advisory": ("holders", "fence", "fences", "sequence"),
}


def schema(table: str = TABLE) -> str:
    """Return all tables as SQL text for a migration; it can be run again."""
    prefix = check_table(table)
    own = [_make(name, prefix) for name in (*NEEDED["lease"], *NEEDED["shares"])]
    return "\n".join([*own, _advisory()])


def probe(needed: Sequence[str], table: str) -> str:
    """Return one packet that fails unless these tables exist and may be read."""
    return ";".join(f"SELECT 1 FROM {table}_{name} LIMIT 0" for name in needed)


def missing_tables(what: str, table: str) -> str:
    """Return one packet that creates the tables of a mode, or those of shares."""
    needed = "".join(_make(name, table) for name in NEEDED[what])
    if what == "advisory":
        needed = _advisory()
    return "".join(line for line in needed.splitlines(True) if not line.startswith("--")).strip()


def _advisory() -> str:
    tables = [_make(name, ADVISORY) for name in NEEDED["advisory"]]
    return "\n".join([_make("database", ADVISORY), *tables])


def _make(name: str, table: str) -> str:
    return _TABLES[name].format(t=table, d=DATABASE) + "\n"


def check_table(value: object) -> str:
    """Check the prefix of the tables: it is the only text of a caller that becomes SQL."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", value):
        raise Misconfigured(
            f"table must be 1 to 31 lower-case letters, digits and underscores, not {value!r}"
        )
    return value
