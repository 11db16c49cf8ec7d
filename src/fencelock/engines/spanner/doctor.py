"""Check a database and its table against our promises."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import Denied
from ...model import Finding
from .._google.settings import emulator_finding
from ..doctor import clock, clock_offset
from .database import Database
from .rows import SIDE
from .settings import EMULATOR_VARIABLE, Settings

POLICY_ADVICE = "ALTER TABLE {} ADD ROW DELETION POLICY (OLDER_THAN(ends_at, INTERVAL 1 DAY))"


async def diagnose(
    database: Database, settings: Settings, wall_us: Callable[[], int]
) -> list[Finding]:
    """Return all findings about one table."""
    before = wall_us()
    (row,) = await database.look(SIDE)
    findings = [clock(clock_offset(row.now_us, before, wall_us()))]
    if settings.emulator:
        findings.append(emulator_finding(EMULATOR_VARIABLE))
    try:
        statements = await database.wire.ddl()
    except Denied as error:
        return [*findings, Finding("note", "table", f"how it was made cannot be seen: {error}")]
    return [*findings, *_table(settings.table, statements)]


def _table(table: str, statements: list[str]) -> list[Finding]:
    """Return the findings about the table's ``CREATE TABLE`` statement."""
    begins = re.compile(rf"CREATE TABLE `?{re.escape(table)}`?\s*\(", re.IGNORECASE)
    found = next((one for one in statements if begins.match(one)), "")
    words = "".join(found.split()).upper()
    findings = [Finding("ok", "table", f"{table} is there")]
    if "OLDER_THAN(ENDS_AT," in words:
        findings.append(Finding("ok", "rows", "Spanner deletes those whose holders died"))
    else:
        stay = "one stays for every name whose holder died"
        findings.append(Finding("warning", "rows", stay, POLICY_ADVICE.format(table)))
    return findings
