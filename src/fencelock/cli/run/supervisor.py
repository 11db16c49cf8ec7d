"""Run a command under a lease: inform the watchdog, forward signals, notice the end."""

from __future__ import annotations

import select
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import clock, codes
from ..signals import FORWARDED, Signals
from .child import Child
from .kill_plan import Watch
from .watchdog import Watchdog

if TYPE_CHECKING:
    from ...sync import Lease

TICK_MAX_S = 1.0
REST_TICK_S = 0.05
NEVER = float("inf")


class Outcome(NamedTuple):
    """How a command ended."""

    code: int | None
    """Its exit code, 128+N when it died by signal N; None when it was not started."""
    stopped: bool = False
    """We stopped it because the lease was ending."""
    timed_out: bool = False
    """We stopped it because it ran for too long."""
    lost_reason: str | None = None

    def exit_code(self) -> int:
        """Return the exit code of the wrapper."""
        if self.stopped or self.code is None:
            return codes.LOST
        return codes.TIMED_OUT if self.timed_out else self.code


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
        self._watch = Watch(watchdog.plan)
        self._reason: str | None = None
        self._told = False
        self._alone = False
        self._timed_out = False
        self._kill_at = NEVER
        self._stop_at = NEVER if max_runtime is None else clock.now() + max_runtime

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        """Start the command, supervise it until it ends, and return how it ended."""
        self._report_lease()
        if not self._lease:
            self._warn(f"lost {self._lease.name!r} before the command was started: {self._reason}")
            return Outcome(None, stopped=True, lost_reason=self._reason)
        self._watchdog.tell("spawn")
        child = Child(command, environment, self._watchdog.lease_pipe)
        self._watchdog.tell(f"group {child.group}")
        while not child.look():
            self._report_lease()
            self._limit(child)
            self._stand_in(child)
            self._listen(child)
        self._watchdog.look()
        lost = self._watchdog.fired or self._watch.ended
        if lost or self._timed_out:
            self._end_group(child)
        if lost:
            self._tell_loss()
        return Outcome(
            child.code, lost and self._watchdog.plan.stops, self._timed_out, self._reason
        )

    def _listen(self, child: Child) -> None:
        """Sleep until a signal, the watchdog or the next thing to do; handle the first two."""
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

    def _report_lease(self) -> None:
        """Tell the watchdog until when the lease is good, or that it is lost."""
        remaining = self._lease.remaining()
        if remaining > 0:
            self._watch.until = clock.now() + remaining
            self._watchdog.tell(f"until {self._watch.until:.6f}")
        elif self._reason is None:
            self._reason = self._lease.reason
            self._watchdog.tell("lost")

    def _tell_loss(self) -> None:
        """Print once that the lease is lost, and what was done."""
        if self._told:
            return
        self._told = True
        self._reason = self._reason or self._lease.reason or "it was not renewed in time"
        self._warn(
            f"lost {self._lease.name!r} (fence {self._lease.fence}): {self._reason}; "
            f"{self._watchdog.plan.words()}"
        )

    def _stand_in(self, child: Child) -> None:
        """Do the work of a watchdog that was killed, as well as this process can."""
        if not self._watchdog.gone:
            return
        if not self._alone:
            self._alone = True
            self._warn(
                "the watchdog was killed: if this process freezes, nothing stops the command"
            )
        now = clock.now()
        if not self._lease:
            self._watch.until = min(now, self._watch.until or now)
        for number in self._watch.look(now):
            child.send(number)
        if self._watch.ended:
            self._tell_loss()

    def _limit(self, child: Child) -> None:
        """End a command that runs for too long."""
        now = clock.now()
        if now >= self._stop_at:
            self._stop_at, self._kill_at = NEVER, now + self._grace
            self._timed_out = True
            self._warn("--max-runtime was hit; the command was sent TERM")
            child.send(signal.SIGTERM)
        if now >= self._kill_at:
            self._kill_at = NEVER
            child.send(signal.SIGKILL)

    def _end_group(self, child: Child) -> None:
        """After a loss or a timeout, wait for the rest of the group; end it in time too."""
        end = min(clock.now() + self._grace, self._kill_at)
        if self._watch.until is not None and not self._timed_out:
            end = min(end, self._watch.until - self._watch.plan.margin)
        while child.has_rest() and clock.now() < end:
            select.select([], [], [], REST_TICK_S)
        if self._watchdog.plan.kill or self._timed_out:
            child.send(signal.SIGKILL)
