"""Find what in a cluster and its settings would break a promise."""

from __future__ import annotations

from ...model import Finding
from .sessions import Session
from .settings import Settings
from .wire import Wire

MEMBERS_MIN = 3
LONG_S = 60.0
MEMBERS_ADVICE = "run three or five members, all of them CP members: one or two may then fail"
LONG_ADVICE = "set session-time-to-live-seconds (and the heartbeat interval) lower on all members"
MEMORY_ADVICE = (
    "enable CP persistence (Hazelcast Enterprise), or never restart all members at once; after "
    "that has happened, begin the marks of your guards anew"
)
CLOCK_ADVICE = "keep the clocks of the members in step by NTP, slewed and not stepped"


async def diagnose(wire: Wire, session: Session, settings: Settings) -> list[Finding]:
    """Return all findings about one cluster."""
    await wire.connect()
    members = wire.members()
    releases = ", ".join(sorted({release for _, release in members}))
    text = f"{len(members)} in {settings.cluster!r}, of release {releases}"
    findings = [Finding("ok", "members", text)]
    if len(members) < MEMBERS_MIN:
        text = f"{text}: no lock can be acquired or renewed while one of the CP members is down"
        findings = [Finding("warning", "members", text, MEMBERS_ADVICE)]
    findings.append(Finding("ok", "CP group", f"{session.group.name} answers by majority"))
    text = f"a holder that dies keeps its locks for {session.ttl:g} s, and no lease is longer"
    if session.ttl > LONG_S:
        findings.append(Finding("note", "sessions", text, LONG_ADVICE))
    else:
        findings.append(Finding("ok", "sessions", text))
    text = (
        "cannot be seen from here: without CP persistence, locks are gone and fences begin anew "
        "when all members restart, or a majority is lost and the CP Subsystem is reset"
    )
    findings.append(Finding("note", "persistence", text, MEMORY_ADVICE))
    text = "a member whose clock is set forward ends sessions early, before their holders know"
    findings.append(Finding("note", "clocks", text, CLOCK_ADVICE))
    return findings
