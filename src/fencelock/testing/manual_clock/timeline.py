"""The time of a manual clock, with its sleepers and its workers.

Both flavors share it: in ``threads.py`` threads sleep on it and move it, in ``aio.py`` tasks do.

* A worker is a job in the background, or a running call of a client. A move of the clock waits
  until all workers sleep or are done; so no work is half done when the move is over.
* Sleepers whose deadlines have passed are woken one after the other, in the order of their
  deadlines: the same test takes the same course every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager

from ...errors import UsageError
from ...world import NO_LIMIT, Signal

START = 1000.0
REAL_TIMEOUT_S = 10.0  # real seconds after which something must be wrong
FLOW_MAX_S = 3600.0  # of a clock that flows: a call that waits longer would wait forever


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
    """A thread or task that waits for a signal or a deadline."""

    __slots__ = ("deadline", "rouse", "signal", "who")

    def __init__(
        self, who: Hashable, signal: Signal, deadline: float | None, rouse: Callable[[], None]
    ) -> None:
        self.who = who
        self.signal = signal
        self.deadline = deadline
        self.rouse = rouse


class Worker:
    """A job, or a running call of a client."""

    __slots__ = ("asleep", "began_at", "is_job", "label")

    def __init__(self, label: str, is_job: bool, began_at: float) -> None:
        self.label = label
        self.is_job = is_job
        self.began_at = began_at
        self.asleep = False


class Timeline:
    """The time of some clients, with their sleepers and workers."""

    def __init__(self, real_timeout: float = REAL_TIMEOUT_S, flows: bool = False) -> None:
        self.real_timeout = real_timeout
        self.flows = flows
        """Whether time passes by itself while a call waits for it and no worker is busy."""
        self.mutex = threading.RLock()  # a client's finalizer may set a signal at any point
        self.moves = 0
        self._now = START
        self._sleepers: dict[Sleeper, None] = {}
        self._workers: dict[Hashable, Worker] = {}

    def now(self) -> float:
        return self._now

    def begin(self, who: Hashable, label: str, is_job: bool) -> bool:
        """Add a worker; return False if the thread or task is one already."""
        with self.mutex:
            if who in self._workers:
                return False
            self._workers[who] = Worker(label, is_job, self._now)
            return True

    def end(self, who: Hashable) -> None:
        """Remove a worker: its work is done."""
        with self.mutex:
            self._workers.pop(who, None)
            self.on_change()

    @contextmanager
    def call(self, who: Hashable, label: str) -> Generator[None, None, None]:
        """Count the caller as a worker within the block: a move of the clock waits for it."""
        first = self.begin(who, label, is_job=False)
        try:
            yield
        finally:
            if first:
                self.end(who)

    def busy(self, *besides: Hashable) -> list[str]:
        """Return the labels of all workers, other than ``besides``, that do not sleep."""
        with self.mutex:
            workers = self._workers.items()
            return [w.label for who, w in workers if not w.asleep and who not in besides]

    def is_job(self, who: Hashable) -> bool:
        """Return whether a worker is a background job, which may sleep forever."""
        with self.mutex:
            return who in self._workers and self._workers[who].is_job

    def sleep(
        self, who: Hashable, signal: Signal, deadline: float | None, rouse: Callable[[], None]
    ) -> Sleeper | None:
        """Register a sleeper; return None if its signal is set or its deadline has passed."""
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
        """Wake a sleeper; if it is a worker, it counts as busy from this moment."""
        with self.mutex:
            self._sleepers.pop(sleeper, None)
            if sleeper.who in self._workers:
                self._workers[sleeper.who].asleep = False
            sleeper.rouse()

    def sleeps(self, sleeper: Sleeper) -> bool:
        return sleeper in self._sleepers

    def wake_waiters(self, signal: Signal) -> None:
        """Wake all sleepers that wait for a signal."""
        for sleeper in [sleeper for sleeper in self._sleepers if sleeper.signal is signal]:
            self.wake(sleeper)

    def move(self, moment: float) -> None:
        """Set the time; no sleeper is woken yet."""
        with self.mutex:
            self._now = max(self._now, moment)
            self.moves += 1

    def wake_first(self) -> bool:
        """Wake the sleeper with the earliest deadline; return False if none has passed."""
        with self.mutex:
            soonest = self.soonest()
            if soonest is None or soonest > self._now:
                return False
            self.wake(next(s for s in self._sleepers if s.deadline == soonest))
            return True

    def pass_time(self, who: Hashable) -> bool:
        """Move to the earliest deadline and wake its sleeper; return False if a worker is busy or
        there is no deadline.

        For a clock that flows. RuntimeError is raised in a call that would let time pass forever.
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
        """Return the earliest deadline of all sleepers; None if none has one."""
        with self.mutex:
            return min((s.deadline for s in self._sleepers if s.deadline is not None), default=None)

    def on_change(self) -> None:
        """Wake those that wait for all workers to sleep: a worker fell asleep or ended."""

    def unsettled(self, besides: Hashable) -> RuntimeError:
        """Return the error for work that does not end."""
        return RuntimeError(
            f"the clock was moved, and after {self.real_timeout:g} s of real time still at work: "
            f"{', '.join(self.busy(besides)) or 'others'}. Does on_lost wait for something?"
        )

    def unmoved(self) -> RuntimeError:
        """Return the error for a call that waits for time that does not pass."""
        return RuntimeError(
            f"this call has waited for {self.real_timeout:g} s of real time, and its clock moves "
            "by hand only: call advance() or run() from another thread or task"
        )


def seconds(value: float) -> float:
    """Check the number of seconds to move by, and return it."""
    if not 0 <= value < float("inf"):
        raise UsageError(f"time moves forward, by 0 or more seconds: not by {value!r}")
    return value


def ends_by(deadline: float | None, limit: float) -> float | None:
    """Return when a wait ends: at its deadline, or at the limit of the call that it is part of."""
    if limit == NO_LIMIT:
        return deadline
    return limit if deadline is None else min(deadline, limit)
