"""Judge which records are dead: those whose version we saw unchanged for their whole lease.

A holder counts its lease from before it sent the write that made a version; we count from after we
got the first answer that showed it. Both count a duration, each on its own clock, so ours is over
last however far apart the clocks are set. They only have to run equally fast, and a holder gives up
early by what clocks may drift. A record that is renewed has a new version, and we begin anew.
"""

from __future__ import annotations

from typing import NamedTuple

from .records import Record

KEPT = 10_000  # names; whoever is dropped is watched anew, which only takes longer


class Observation(NamedTuple):
    """One version of one record, since we first saw it."""

    version: str
    since: float
    ttl: float

    def left(self, now: float) -> float:
        """Seconds until the record is dead, if nobody renews it."""
        return self.since + self.ttl - now


class Observations:
    """What one client has seen of the names that others hold."""

    def __init__(self) -> None:
        self._seen: dict[str, Observation] = {}

    def note(self, record: Record, now: float) -> Observation:
        """Note a held record as an answer showed it, at a moment after that answer came."""
        seen = self._seen.get(record.name)
        if seen is None or seen.version != record.version:
            seen = Observation(record.version, now, record.ttl)
            self._seen.pop(record.name, None)
            self._seen[record.name] = seen
            while len(self._seen) > KEPT:
                self._seen.pop(next(iter(self._seen)), None)
        return seen

    def dead(self, name: str, now: float) -> str | None:
        """The version of a record that is dead unless it was changed after we saw it last."""
        seen = self._seen.get(name)
        return seen.version if seen is not None and seen.left(now) <= 0 else None

    def forget(self, name: str) -> None:
        """Drop what was seen of a name that is free or ours."""
        self._seen.pop(name, None)
