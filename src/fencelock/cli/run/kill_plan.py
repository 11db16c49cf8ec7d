"""Compute when to send which signal to a command whose lease ends: values only, no I/O."""

from __future__ import annotations

import signal
from typing import NamedTuple

from ..clock import brief

MARGIN, MARGIN_MIN_S, MARGIN_MAX_S = 0.05, 0.1, 1.0  # of a ttl: see margin()


def margin(ttl: float) -> float:
    """Return how long before the lease ends the stop must be over: a busy machine may be late."""
    return min(max(ttl * MARGIN, MARGIN_MIN_S), MARGIN_MAX_S)


class KillPlan(NamedTuple):
    """What is done to a command whose lease ends."""

    first: int | None
    """The signal that requests it to stop, if any."""
    kill: bool
    """Whether it is killed in the end."""
    grace: float
    """Seconds between the two."""
    nested: bool = False
    """The wrapper runs under another one: if that sends KILL, the command gets KILL at once too."""
    margin: float = MARGIN_MIN_S
    """Seconds between the end of the grace and the end of the lease."""

    @property
    def stops(self) -> bool:
        """Whether the command is requested or forced to stop."""
        return self.kill or self.first is not None

    def words(self) -> str:
        """Describe for people what was done to the command."""
        if self.first is None:
            return "the command was killed" if self.kill else "the command goes on without it"
        first = signal.Signals(self.first).name.removeprefix("SIG")
        rest = f" and gets KILL in {brief(self.grace)}" if self.kill else ""
        return f"the command was sent {first}{rest}"


class Watch:
    """The state of one lease, and which signals are due to its command."""

    def __init__(self, plan: KillPlan) -> None:
        self.plan = plan
        self.until: float | None = None
        """When the lease ends, on the clock of ``clock.now``; None before the first report."""
        self.kill_at: float | None = None
        self.killed = False
        """KILL was due, and was returned to be sent."""
        self.ended = False
        """The lease counts as over: the pipe of the command is closed."""

    def lose(self, now: float) -> list[int]:
        """Count the lease as over: return for now the signals that would have been sent in time."""
        if self.ended:
            return []
        self.ended = True
        end = now + self.plan.grace
        if self.until is not None and now < self.until - self.plan.margin < end:
            end = self.until - self.plan.margin  # still ours for a while, and over before that ends
        self.kill_at = end if self.plan.kill else None
        return [*([] if self.plan.first is None else [self.plan.first]), *self._overdue(now)]

    def orphaned(self, now: float) -> list[int]:
        """Handle the death of the wrapper. If an outer one killed it, there is no time left."""
        signals = self.lose(now)
        if self.plan.nested and self.plan.kill:
            self.kill_at, self.killed = None, True
            return [signal.SIGKILL]
        return signals

    def look(self, now: float) -> list[int]:
        """Return the signals that are due."""
        if not self.ended and self.until is not None and now >= self._stop_at():
            return self.lose(now)
        return self._overdue(now) if self.ended else []

    def next_at(self) -> float | None:
        """Return when to look again; None if nothing is planned."""
        if self.ended:
            return self.kill_at
        return None if self.until is None else self._stop_at()

    def _overdue(self, now: float) -> list[int]:
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at, self.killed = None, True
            return [signal.SIGKILL]
        return []

    def _stop_at(self) -> float:
        assert self.until is not None
        return self.until - self.plan.margin - self.plan.grace
