"""Runs a command under a lease: feeds the watchdog, passes signals on, notices the end."""

from __future__ import annotations

import select
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..worlds import clock
from .child import Child
from .signals import FORWARDED, Signals
from .watchdog import Watch, Watchdog

if TYPE_CHECKING:
    from ..sync import Lease

TICK_MAX_S = 1.0
NEVER = float("inf")


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    """Its exit code, 128+N when it died by signal N."""
    stopped: bool
    """We stopped it because the lease was ending."""
    timed_out: bool
    """We stopped it because it ran for too long."""


class Supervisor:
    """One command under one lease."""

    def __init__(
        self,
        lease: Lease,
        signals: Signals,
        watchdog: Watchdog,
        max_runtime: float | None,
        grace: float,
        warn: Callable[[str], object],
    ) -> None:
        self._lease = lease
        self._signals = signals
        self._watchdog = watchdog
        self._grace = grace
        self._warn = warn
        self._own_watch = Watch(watchdog.plan)
        self._told = False
        self._timed_out = False
        self._kill_at = NEVER
        self._stop_at = NEVER if max_runtime is None else clock.now() + max_runtime

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        """Start the command and see it to its end."""
        self._feed()
        child = Child(command, environment, [self._watchdog.lease_pipe])
        self._watchdog.tell(f"group {child.pid}")
        while not child.look():
            self._feed()
            self._limit(child)
            if self._watchdog.gone:
                self._watch_ourselves(child)
            self._listen(child)
        assert child.code is not None
        self._watchdog.look()
        stopped = self._watchdog.fired or self._own_watch.ended
        return Outcome(child.code, stopped and self._stops(), self._timed_out)

    def _stops(self) -> bool:
        plan = self._watchdog.plan
        return plan.kill or plan.first is not None

    def _listen(self, child: Child) -> None:
        """Sleep until a signal, the watchdog or the next thing to do."""
        now = clock.now()
        nap = min(self._lease.ttl / 12, TICK_MAX_S, self._stop_at - now, self._kill_at - now)
        sources = [self._signals.fileno()]
        if not self._watchdog.gone:
            sources.append(self._watchdog.fileno())
        select.select(sources, [], [], max(nap, 0.0))
        if self._watchdog.look():
            self._tell_loss()
        for number in self._signals.take():
            if number in FORWARDED:
                child.send(number)

    def _feed(self) -> None:
        """Tell the watchdog until when the lease is good, or that it is gone."""
        remaining = self._lease.remaining()
        if remaining > 0:
            self._own_watch.until = clock.now() + remaining
            self._watchdog.tell(f"until {self._own_watch.until:.6f}")
        else:
            self._watchdog.tell("lost")
            self._tell_loss()

    def _tell_loss(self) -> None:
        if not self._told:
            self._told = True
            self._warn(self._lease.reason or "the lease is about to end and could not be renewed")

    def _watch_ourselves(self, child: Child) -> None:
        """The watchdog was killed: do its work as well as we can."""
        lost = not self._lease and not self._own_watch.ended
        now = clock.now()
        for number in self._own_watch.lose(now) if lost else self._own_watch.look(now):
            child.send(number)

    def _limit(self, child: Child) -> None:
        """End a command that runs for too long."""
        now = clock.now()
        if now >= self._stop_at:
            self._stop_at, self._kill_at = NEVER, now + self._grace
            self._timed_out = True
            child.send(signal.SIGTERM)
        if now >= self._kill_at:
            self._kill_at = NEVER
            child.send(signal.SIGKILL)
