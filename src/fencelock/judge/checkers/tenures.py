"""The tenures in a history (which client held what, and when), and the faults of each client.

A tenure has three different ends, because each answers another question. It is *believed in* until
its holder gives it back or learns that it is lost. It is *over* when the engine is known to have
ended it. It is *possible* as long as the engine may still keep the lock for it.

Tenures of one name may overlap, unless one of them *excludes* the other: any two of a mutex, two of
one slot of a semaphore, two of a read/write lock one of which writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ..history import Event, History, Operation
from ..promises import Promises

NEVER = math.inf
LOSSES = ("lost", "told", "expired")
TOO_LATE = ("", "it was no longer ours")  # a failed release with another text had another reason
KINDS = {"semaphore": "semaphore", "read": "rwlock", "write": "rwlock"}  # of a name, by role
_BEGINS = {"pause": "resume", "partition": "heal", "crash": "restart"}


class Tenure(NamedTuple):
    """One successful acquisition."""

    client: str
    name: str
    fence: int
    asked_at: float
    granted_at: float
    left_at: float
    """When the holder began to release it."""
    freed_at: float
    """When the reply to the release came; NEVER if it did not."""
    lost_at: float
    """When any note first reported that it has ended."""
    told_at: float
    """When the holder itself knew that it has ended."""
    crashed_at: float
    released: bool
    """Whether the engine surely keeps it no more: it was released, or had ended before."""
    gave_back: bool
    """Whether the holder's release ended it."""
    events: tuple[int, ...]
    ttl: float
    """How many seconds it lasts; 0 if unknown."""
    role: str = ""
    units: int = 1
    limit: int = 1
    slot: int | None = None
    downgraded_at: float = NEVER
    """When a writer began to request a downgrade: from then on it counts as a reader."""
    until: float = NEVER
    """When it ends without a report, if it is not renewed."""

    @property
    def believed_until(self) -> float:
        """When the holder stopped acting on it."""
        return min(self.left_at, self.told_at, self.crashed_at)

    def possible_until(self, promises: Promises) -> float:
        """Return until when the engine may have kept the lock for it."""
        if self.released:
            return self.freed_at
        if self.until < NEVER:
            return self.granted_at + promises.ttl + promises.slack
        heard_of = min(self.left_at, self.lost_at, self.told_at, self.crashed_at)
        return heard_of + promises.ttl + promises.slack

    def excludes(self, later: Tenure) -> bool:
        """Return whether it must have ended before ``later``, of the same name, is granted."""
        kind = kind_of(self.role)
        if kind == "semaphore":
            return self.slot is not None and self.slot == later.slot
        if kind == "rwlock":
            writes = self.role == "write" and self.downgraded_at > later.granted_at
            return writes or later.role == "write"
        return True


def kind_of(role: str) -> str:
    """Return the kind of name that a role belongs to: names of two kinds have nothing in common."""
    return KINDS.get(role, "lock")


class Disturbance(NamedTuple):
    """A period in which a client or the engine was disturbed."""

    verb: str
    begin: float
    end: float


class Troubles:
    """The periods in which each client and the engine were paused, cut off or dead."""

    def __init__(self, history: History, promises: Promises) -> None:
        self._known = {event.client for event in history if event.kind == "invoke"}
        self._disturbances: dict[str, list[Disturbance]] = {}
        for event in history:
            if event.kind == "note":
                self._take(event, promises)

    def _take(self, event: Event, promises: Promises) -> None:
        who = event.client if event.client in self._known else ""
        disturbances = self._disturbances.setdefault(who, [])
        if event.verb in _BEGINS:
            disturbances.append(Disturbance(event.verb, event.at, NEVER))
        elif event.verb in _BEGINS.values():
            for index, disturbance in enumerate(disturbances):
                if disturbance.end == NEVER and _BEGINS[disturbance.verb] == event.verb:
                    disturbances[index] = disturbance._replace(end=event.at)
        elif event.verb == "clock":
            disturbances.append(Disturbance(event.verb, event.at, event.at + promises.ttl))

    def pauses(self, client: str) -> list[Disturbance]:
        """Return the periods in which a client was paused."""
        return [one for one in self._disturbances.get(client, ()) if one.verb == "pause"]

    def between(self, client: str, since: float, until: float, after: float = 0.0) -> bool:
        """Return whether anything disturbed a client or the engine in a period, or in the ``after``
        seconds before it."""
        disturbances = [*self._disturbances.get(client, ()), *self._disturbances.get("", ())]
        return any(one.begin <= until and one.end + after >= since for one in disturbances)

    def last_before(self, client: str, moment: float) -> float:
        """Return when the last disturbance of a client or the engine that began before a moment
        ended."""
        disturbances = [*self._disturbances.get(client, ()), *self._disturbances.get("", ())]
        return max((one.end for one in disturbances if one.begin <= moment), default=-NEVER)

    def crash_after(self, client: str, moment: float) -> float:
        """Return when a client that ran at a moment was killed, or NEVER."""
        crashes = [one.begin for one in self._disturbances.get(client, ()) if one.verb == "crash"]
        return min((crash for crash in crashes if crash >= moment), default=NEVER)

    def running_since(self, client: str, moment: float) -> float:
        """Return the first time from a moment on at which a client runs."""
        return self.having_run(client, moment, 0.0)

    def having_run(self, client: str, moment: float, seconds: float) -> float:
        """Return when a client has run for so many seconds since a moment, not counting pauses."""
        for pause in sorted(self.pauses(client), key=lambda pause: pause.begin):
            if pause.end > moment and pause.begin <= moment + seconds:
                seconds -= max(0.0, pause.begin - moment)
                moment = pause.end
        return moment + seconds


class Tenures(NamedTuple):
    """The tenures and operations of one name of one kind."""

    name: str
    kind: str
    """lock, semaphore or rwlock."""
    tenures: list[Tenure]
    acquires: list[Operation]
    releases: list[Operation]
    renewals: list[Operation]


def locks(history: History, *kinds: str) -> Iterator[Tenures]:
    """Iterate over the names of these kinds, or of any, with tenures in the order of grants."""
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
    """Return whether a release found that the lease had ended before."""
    return release.outcome == "fail" and release.detail in TOO_LATE


def _is_about(fence: int, at: float, one: Operation, span: tuple[float, float]) -> bool:
    """Return whether a fence is this tenure's; if unknown, whether the time is within its span."""
    if fence and one.fence:
        return fence == one.fence
    return span[0] <= at < span[1]
