"""The table in ``sql/locks.sql``: printed by ``fencelock schema spanner``, or made at first use."""

from __future__ import annotations

from pathlib import Path

from .._sql.sections import composed, sections
from .settings import TABLE, check_table

_FILE = Path(__file__).parent / "sql" / "locks.sql"


def schema(table: str = TABLE) -> str:
    """Return the table as SQL text for a migration, without comments; it can be run again."""
    lines = sections(_FILE)["table"].replace("{t}", check_table(table)).splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")) + ";\n"


def statements(table: str) -> dict[str, str]:
    """Return the statement that creates the table, and those that read it, by name."""
    return composed(_FILE, t=table)
