"""Keep the time of a manual clock: who sleeps until when, and who is at work.

Both flavors share it: ``threads.py`` and ``aio.py`` put their own to sleep on it, and move it.

* A worker is a job in the background, or a call of a client that is under way. Whoever moves the
  clock waits until all workers sleep or are done; so nothing is half way when the move is over.
* Sleepers whose time has come are woken one after the other, in the order of their deadlines: the
  same test takes the same course every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager

from ...errors import UsageError
from ...world import NO_LIMIT, Signal

START = 1000.0
REAL_TIMEOUT_S = 10.0  # real seconds after which something must be wrong
FLOW_MAX_S = 3600.0  # of a clock that flows: a call that waits longer waits for ever


class Flag:
    """A signal whose waiters sleep on a timeline."""

    __slots__ = ("_flag", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._flag = False

    def set(self) -> None:
        with self._timeline.mutex:
            self._flag = True
            self._timeline.wake_waiters(self)

    def clear(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        return self._flag


class Sleeper:
    """One that waits for a signal or a moment."""

    __slots__ = ("deadline", "rouse", "signal", "who")

    def __init__(
        self, who: Hashable, signal: Signal, deadline: float | None, rouse: Callable[[], None]
    ) -> None:
        self.who = who
        self.signal = signal
        self.deadline = deadline
        self.rouse = rouse


class Worker:
    """A job, or a call that is under way."""

    __slots__ = ("asleep", "began_at", "is_job", "label")

    def __init__(self, label: str, is_job: bool, began_at: float) -> None:
        self.label = label
        self.is_job = is_job
        self.began_at = began_at
        self.asleep = False


class Timeline:
    """The time of some clients, and all that happens in it."""

    def __init__(self, real_timeout: float = REAL_TIMEOUT_S, flows: bool = False) -> None:
        self.real_timeout = real_timeout
        self.flows = flows
        """Whether time passes by itself while a call waits for it and nobody is at work."""
        self.mutex = threading.RLock()  # a collected client sets a signal, wherever we are
        self.moves = 0
        self._now = START
        self._sleepers: dict[Sleeper, None] = {}
        self._workers: dict[Hashable, Worker] = {}

    def now(self) -> float:
        return self._now

    def begin(self, who: Hashable, label: str, is_job: bool) -> bool:
        """Somebody goes to work; False when it is at work already."""
        with self.mutex:
            if who in self._workers:
                return False
            self._workers[who] = Worker(label, is_job, self._now)
            return True

    def end(self, who: Hashable) -> None:
        """Its work is done."""
        with self.mutex:
            self._workers.pop(who, None)
            self.on_change()

    @contextmanager
    def call(self, who: Hashable, label: str) -> Generator[None, None, None]:
        """The call of a client, which whoever moves the clock waits for."""
        first = self.begin(who, label, is_job=False)
        try:
            yield
        finally:
            if first:
                self.end(who)

    def busy(self, *besides: Hashable) -> list[str]:
        """The labels of all that are at work and do not sleep."""
        with self.mutex:
            workers = self._workers.items()
            return [w.label for who, w in workers if not w.asleep and who not in besides]

    def is_job(self, who: Hashable) -> bool:
        """Whether somebody works in the background, where it may sleep for ever."""
        with self.mutex:
            return who in self._workers and self._workers[who].is_job

    def sleep(
        self, who: Hashable, signal: Signal, deadline: float | None, rouse: Callable[[], None]
    ) -> Sleeper | None:
        """Put somebody to sleep; None when there is nothing to wait for."""
        with self.mutex:
            if signal.is_set() or (deadline is not None and deadline <= self._now):
                return None
            sleeper = Sleeper(who, signal, deadline, rouse)
            self._sleepers[sleeper] = None
            if who in self._workers:
                self._workers[who].asleep = True
            self.on_change()
            return sleeper

    def wake(self, sleeper: Sleeper) -> None:
        """Wake somebody, who counts as at work from this moment."""
        with self.mutex:
            self._sleepers.pop(sleeper, None)
            if sleeper.who in self._workers:
                self._workers[sleeper.who].asleep = False
            sleeper.rouse()

    def sleeps(self, sleeper: Sleeper) -> bool:
        return sleeper in self._sleepers

    def wake_waiters(self, signal: Signal) -> None:
        """Wake all that wait for a signal."""
        for sleeper in [sleeper for sleeper in self._sleepers if sleeper.signal is signal]:
            self.wake(sleeper)

    def move(self, moment: float) -> None:
        """Set the time; nobody is woken yet."""
        with self.mutex:
            self._now = max(self._now, moment)
            self.moves += 1

    def wake_first(self) -> bool:
        """Wake the one whose time came first; False when nobody's has come."""
        with self.mutex:
            soonest = self.soonest()
            if soonest is None or soonest > self._now:
                return False
            self.wake(next(s for s in self._sleepers if s.deadline == soonest))
            return True

    def pass_time(self, who: Hashable) -> bool:
        """Go to the next moment at which somebody wakes, and wake it; False if it is not time.

        For a clock that flows. A call that would let time pass for ever is told so.
        """
        with self.mutex:
            worker, soonest = self._workers.get(who), self.soonest()
            if soonest is None or self.busy():
                return False
            if worker is not None and soonest > worker.began_at + FLOW_MAX_S:
                raise RuntimeError(
                    f"this call would wait for more than {FLOW_MAX_S:g} s of its clock: give it a "
                    "timeout, or have another thread or task release the lock"
                )
            self.move(soonest)
            return self.wake_first()

    def soonest(self) -> float | None:
        """The next moment at which somebody wakes by itself."""
        with self.mutex:
            return min((s.deadline for s in self._sleepers if s.deadline is not None), default=None)

    def on_change(self) -> None:
        """Somebody fell asleep or ended: whoever waits for quiet should look."""

    def unsettled(self, besides: Hashable) -> RuntimeError:
        """The error for work that does not end."""
        return RuntimeError(
            f"the clock was moved, and after {self.real_timeout:g} s of real time still at work: "
            f"{', '.join(self.busy(besides)) or 'others'}. Does on_lost wait for something?"
        )

    def unmoved(self) -> RuntimeError:
        """The error for a call that waits for time that does not pass."""
        return RuntimeError(
            f"this call has waited for {self.real_timeout:g} s of real time, and its clock moves "
            "by hand only: call advance() or run() from another thread or task"
        )


def seconds(value: float) -> float:
    """A length of time to move by."""
    if not 0 <= value < float("inf"):
        raise UsageError(f"time moves forward, by 0 or more seconds: not by {value!r}")
    return value


def ends_by(deadline: float | None, limit: float) -> float | None:
    """By when a wait ends: at its deadline, or when the call that it is part of has to."""
    if limit == NO_LIMIT:
        return deadline
    return limit if deadline is None else min(deadline, limit)
