"""Check a table and its settings against our promises."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime

from ...errors import Denied, EngineError
from ...model import Finding
from ..doctor import clock, clock_offset
from .records import EXPIRES
from .table import Table

CLOCK_ADVICE = "set it right: DynamoDB refuses requests that are signed five minutes off"
TTL_ADVICE = f"enable the table's time to live, on the attribute {EXPIRES}"
REGION_ADVICE = "have all clients of a lock name the same region"


async def diagnose(table: Table, wall_us: Callable[[], int]) -> list[Finding]:
    """Return all findings about one table."""
    before = wall_us()
    try:
        answer = await table.call("describe_table")
    except Denied as error:
        return [Finding("note", "table", f"its settings cannot be seen: {error}")]
    after, described = wall_us(), answer["Table"]
    findings = [Finding("ok", "table", f"{described['TableName']} is there"), await _items(table)]
    others = [str(replica.get("RegionName")) for replica in described.get("Replicas", [])]
    if others:
        text = f"a global table, also in {', '.join(others)}: regions do not exclude each other"
        findings.append(Finding("warning", "regions", text, REGION_ADVICE))
    if date := answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date"):
        theirs = int(parsedate_to_datetime(date).timestamp() * 1e6) + 500_000  # of a whole second
        findings.append(clock(clock_offset(theirs, before, after), advice=CLOCK_ADVICE))
    return findings


async def _items(table: Table) -> Finding:
    """Return whether DynamoDB deletes items that no lock needs any more."""
    try:
        answer = await table.call("describe_time_to_live")
    except EngineError as error:
        return Finding("note", "items", f"whether old ones are deleted cannot be seen: {error}")
    found = answer.get("TimeToLiveDescription", {})
    if found.get("AttributeName") == EXPIRES and found["TimeToLiveStatus"].startswith("ENABL"):
        return Finding("ok", "items", "DynamoDB deletes those that nobody has used for a day")
    return Finding("warning", "items", "one stays for every name that was ever locked", TTL_ADVICE)
