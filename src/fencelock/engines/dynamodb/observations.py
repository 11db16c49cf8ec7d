"""Judge which records are dead: those whose version we saw unchanged for their whole lease.

A holder counts its lease from before it sent the write that made a version; we count from after the
first reply that showed it. Both count a duration, each on its own clock, so ours ends last however
far apart the clocks are set. They only have to run equally fast, and a holder gives up early by the
drift that clocks may have. A record that is renewed has a new version, and we count anew.
"""

from __future__ import annotations

from .records import Record

KEPT = 10_000  # names; a name that is dropped is watched anew, which only takes longer


class Observations:
    """The versions that one client has seen of the names that others hold."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, float]] = {}
        """By name: a version, and when the record is dead unless it is renewed."""

    def left(self, record: Record, now: float) -> float:
        """Return the seconds until a held record is dead; ``now`` is after the reply with it."""
        version, until = self._seen.get(record.name, ("", 0.0))
        if version != record.version:
            until = now + record.ttl
            self._seen[record.name] = record.version, until
            while len(self._seen) > KEPT:
                self._seen.pop(next(iter(self._seen)), None)
        return until - now

    def dead(self, name: str, now: float) -> str | None:
        """Return the version of a record that is dead unless it has changed since we saw it."""
        version, until = self._seen.get(name, ("", now))
        return version if until <= now and version else None

    def forget(self, name: str) -> None:
        """Forget the version of a name that is free or ours."""
        self._seen.pop(name, None)
