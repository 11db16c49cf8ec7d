"""Derive from a history who held what from when to when, and which faults befell whom.

Three ends of a tenure are told apart, because each answers another question. It is *believed in*
until its holder gives it back or learns that it is lost. It is *over* when the engine is known to
have ended it. It is *possible* as long as the engine may still keep the lock for it.

Tenures of one name may go on at the same time, unless one of them *excludes* the other: any two of
a mutex, two of one slot of a semaphore, two of a read/write lock one of which writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ..history import Event, History, Operation
from ..promises import Promises

NEVER = math.inf
LOSSES = ("lost", "told", "expired")
TOO_LATE = ("", "it was no longer ours")  # a release that failed and says more had another reason
KINDS = {"semaphore": "semaphore", "read": "rwlock", "write": "rwlock"}  # of a name, by the role
_BEGINS = {"pause": "resume", "partition": "heal", "crash": "restart"}


class Tenure(NamedTuple):
    """One successful acquisition."""

    client: str
    name: str
    fence: int
    asked_at: float
    granted_at: float
    left_at: float
    """When the holder began to give it back."""
    freed_at: float
    """When the answer to that came, if it did."""
    lost_at: float
    """The first word, from whomever, that it has ended."""
    told_at: float
    """When the holder itself knew that it has ended."""
    crashed_at: float
    released: bool
    """The engine keeps it no more: it was given back, or had ended before."""
    gave_back: bool
    """It was the holder that ended it."""
    events: tuple[int, ...]
    ttl: float
    """How long it lasts, or 0 where that is not known."""
    role: str = ""
    units: int = 1
    limit: int = 1
    slot: int | None = None
    downgraded_at: float = NEVER
    """When a writer was content to read: from before it said so."""
    until: float = NEVER
    """When it ends without a word, because nobody renews it."""

    @property
    def believed_until(self) -> float:
        """When the holder stopped to act on it."""
        return min(self.left_at, self.told_at, self.crashed_at)

    def possible_until(self, promises: Promises) -> float:
        """Until when the engine may have kept the lock for it."""
        if self.released:
            return self.freed_at
        if self.until < NEVER:
            return self.granted_at + promises.ttl + promises.slack
        heard_of = min(self.left_at, self.lost_at, self.told_at, self.crashed_at)
        return heard_of + promises.ttl + promises.slack

    def excludes(self, later: Tenure) -> bool:
        """Whether it must have ended before another of its name is granted."""
        kind = kind_of(self.role)
        if kind == "semaphore":
            return self.slot is not None and self.slot == later.slot
        if kind == "rwlock":
            writes = self.role == "write" and self.downgraded_at > later.granted_at
            return writes or later.role == "write"
        return True


def kind_of(role: str) -> str:
    """The kind of name that is held in a role: names of two kinds have nothing in common."""
    return KINDS.get(role, "lock")


class Spell(NamedTuple):
    """A time in which somebody was disturbed."""

    verb: str
    begin: float
    end: float


class Troubles:
    """Who was paused, cut off or killed, and when."""

    def __init__(self, history: History, promises: Promises) -> None:
        self._known = {event.client for event in history if event.kind == "invoke"}
        self._spells: dict[str, list[Spell]] = {}
        for event in history:
            if event.kind == "note":
                self._take(event, promises)

    def _take(self, event: Event, promises: Promises) -> None:
        who = event.client if event.client in self._known else ""
        spells = self._spells.setdefault(who, [])
        if event.verb in _BEGINS:
            spells.append(Spell(event.verb, event.at, NEVER))
        elif event.verb in _BEGINS.values():
            for index, spell in enumerate(spells):
                if spell.end == NEVER and _BEGINS[spell.verb] == event.verb:
                    spells[index] = spell._replace(end=event.at)
        elif event.verb == "clock":
            spells.append(Spell(event.verb, event.at, event.at + promises.ttl))

    def pauses(self, client: str) -> list[Spell]:
        """When a client did not run."""
        return [spell for spell in self._spells.get(client, ()) if spell.verb == "pause"]

    def between(self, client: str, since: float, until: float, after: float = 0.0) -> bool:
        """Whether anything disturbed a client or the engine in a time, or shortly before it."""
        spells = [*self._spells.get(client, ()), *self._spells.get("", ())]
        return any(spell.begin <= until and spell.end + after >= since for spell in spells)

    def last_before(self, client: str, moment: float) -> float:
        """When all was over that disturbed a client or the engine before a moment."""
        spells = [*self._spells.get(client, ()), *self._spells.get("", ())]
        return max((spell.end for spell in spells if spell.begin <= moment), default=-NEVER)

    def crash_after(self, client: str, moment: float) -> float:
        """When a client that ran at a moment was killed, if it was."""
        crashes = [s.begin for s in self._spells.get(client, ()) if s.verb == "crash"]
        return min((crash for crash in crashes if crash >= moment), default=NEVER)

    def running_since(self, client: str, moment: float) -> float:
        """The first time from a moment on at which a client runs."""
        return self.having_run(client, moment, 0.0)

    def having_run(self, client: str, moment: float, seconds: float) -> float:
        """When a client has run for so long since a moment: what it was paused does not count."""
        for spell in sorted(self.pauses(client), key=lambda spell: spell.begin):
            if spell.end > moment and spell.begin <= moment + seconds:
                seconds -= max(0.0, spell.begin - moment)
                moment = spell.end
        return moment + seconds


class Tenures(NamedTuple):
    """All that the checkers of one name of one kind look at."""

    name: str
    kind: str
    """lock, semaphore or rwlock."""
    tenures: list[Tenure]
    acquires: list[Operation]
    releases: list[Operation]
    renewals: list[Operation]


def locks(history: History, *kinds: str) -> Iterator[Tenures]:
    """Each name of these kinds, or of any, with its tenures in the order of their grants."""
    operations = history.operations("acquire", "release", "renew", "downgrade")
    ends = [e for e in history if e.kind == "note" and e.verb in (*LOSSES, "crash")]
    by_name: dict[tuple[str, str], list[Operation]] = {}
    for operation in operations:
        by_name.setdefault((operation.name, kind_of(operation.role)), []).append(operation)
    for (name, kind), here in by_name.items():
        if kinds and kind not in kinds:
            continue
        verbs: dict[str, list[Operation]] = {}
        for operation in here:
            verbs.setdefault(operation.verb, []).append(operation)
        acquires, releases = verbs.get("acquire", []), verbs.get("release", [])
        notes = [note for note in ends if note.name in ("", name)]
        granted = sorted((one for one in acquires if one.outcome == "ok"), key=lambda one: one.end)
        tenures = list(_tenures(granted, releases, verbs.get("downgrade", []), notes))
        yield Tenures(name, kind, tenures, acquires, releases, verbs.get("renew", []))


def _tenures(
    granted: list[Operation],
    releases: list[Operation],
    downgrades: list[Operation],
    notes: list[Event],
) -> Iterator[Tenure]:
    mine: dict[str, list[Operation]] = {}
    for operation in (*releases, *downgrades):
        mine.setdefault(operation.client, []).append(operation)
    following: dict[str, list[float]] = {}
    for one in granted:
        following.setdefault(one.client, []).append(one.end)
    for one in granted:
        later = [moment for moment in following[one.client] if moment > one.end]
        span = (one.end, later[0] if later else NEVER)
        yield _hold(one, span, mine.get(one.client, []), notes)


def _hold(
    one: Operation, span: tuple[float, float], changes: list[Operation], notes: list[Event]
) -> Tenure:
    about = [change for change in changes if _is_about(change.fence, change.begin, one, span)]
    ours = [change for change in about if change.verb == "release"]
    downgrades = [change.begin for change in about if change.verb == "downgrade"]
    sure = [release.end for release in ours if release.outcome == "ok" or is_too_late(release)]
    lost, told, crashed = one.until, one.until, NEVER
    for note in notes:
        if note.verb == "crash":
            if note.client == one.client and note.at >= one.begin:
                crashed = min(crashed, note.at)
        elif note.op == one.op or (
            not note.op
            and (note.client == one.client or note.fence)
            and _is_about(note.fence, note.at, one, span)
        ):
            lost = min(lost, note.at)
            if note.verb != "expired":
                told = min(told, note.at)
    return Tenure(
        one.client,
        one.name,
        one.fence,
        one.begin,
        one.end,
        min((release.begin for release in ours), default=NEVER),
        min(sure, default=NEVER),
        lost,
        told,
        crashed,
        bool(sure),
        any(release.outcome == "ok" for release in ours),
        one.events + tuple(event for release in ours for event in release.events),
        one.ttl,
        one.role,
        one.units,
        one.limit,
        one.slot,
        min(downgrades, default=NEVER),
        one.until,
    )


def is_too_late(release: Operation) -> bool:
    """Whether a release found that the lease had ended before."""
    return release.outcome == "fail" and release.detail in TOO_LATE


def _is_about(fence: int, at: float, one: Operation, span: tuple[float, float]) -> bool:
    """By its fence; where none is known, it is about the latest tenure of its client."""
    if fence and one.fence:
        return fence == one.fence
    return span[0] <= at < span[1]
