"""Check a collection and its surroundings against our promises."""

from __future__ import annotations

from collections.abc import Callable

from ...model import Finding
from .._google.settings import emulator_finding
from ..doctor import clock, clock_offset
from .documents import LOCK, next_id
from .settings import EMULATOR_VARIABLE, Settings
from .wire import Wire

FOREIGN_MAX = 100
FOREIGN_ADVICE = "give the locks a collection of their own"


async def diagnose(wire: Wire, settings: Settings, wall_us: Callable[[], int]) -> list[Finding]:
    """Return all findings about one collection."""
    before = wall_us()
    server_us = await wire.server_us()
    ahead = clock_offset(server_us, before, wall_us())
    findings = [Finding("ok", "database", f"{settings.database} of {settings.project} answers")]
    if settings.emulator:
        findings.append(emulator_finding(EMULATOR_VARIABLE))
    found = await wire.ids_between(LOCK, next_id(LOCK), FOREIGN_MAX)
    others = [document.id for document in found if not document.is_ours]
    if others:
        text = f"{others[0]!r:.80} is a document of another program, where a lock would be"
        findings.append(Finding("warning", "documents", text, FOREIGN_ADVICE))
    else:
        findings.append(Finding("ok", "documents", "no other program has written where locks are"))
    return [*findings, clock(ahead, "Firestore's clock")]
