"""Judge which records are dead: those whose version we saw unchanged for their whole lease.

A holder counts its lease from before it sent the write that made a version; we count from after we
got the first answer that showed it. Both count a duration, each on its own clock, so ours is over
last however far apart the clocks are set. They only have to run equally fast, and a holder gives up
early by what clocks may drift. A record that is renewed has a new version, and we begin anew.
"""

from __future__ import annotations

from .records import Record

KEPT = 10_000  # names; whoever is dropped is watched anew, which only takes longer


class Observations:
    """What one client has seen of the names that others hold."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}
        """By name: a version, and when it is dead if nobody renews it."""

    def left(self, record: Record, now: float) -> float:
        """Seconds until a held record is dead; ``now`` is after the answer came that showed it."""
        version, until = self._seen.get(record.name, ("", 0.0))
        if version != record.version:
            until = now + record.ttl
            self._seen[record.name] = record.version, until
            while len(self._seen) > KEPT:
                self._seen.pop(next(iter(self._seen)), None)
        return until - now

    def dead(self, name: str, now: float) -> str | None:
        """The version of a record that is dead unless it was changed after we saw it last."""
        version, until = self._seen.get(name, ("", now))
        return version if until <= now and version else None

    def forget(self, name: str) -> None:
        """Drop what was seen of a name that is free or ours."""
        self._seen.pop(name, None)
