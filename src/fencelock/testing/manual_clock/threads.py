"""The manual clock of blocking clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ... import sync
from ...engines.memory import Store
from ...world import Job, Signal
from ...worlds.threads import ThreadsWorld, drive
from ..faulty import Faults
from .core import ManualClockCore
from .timeline import REAL_TIMEOUT_S, Flag, Timeline, ends_by, seconds


class ThreadsTimeline(Timeline):
    """A timeline whose sleepers are threads."""

    def __init__(self, real_timeout: float = REAL_TIMEOUT_S, flows: bool = False) -> None:
        super().__init__(real_timeout, flows)
        self.changed = threading.Condition(self.mutex)

    def on_change(self) -> None:
        self.changed.notify_all()

    def wait(self, signal: Signal, deadline: float | None) -> bool:
        """Sleep in the calling thread."""
        who = threading.current_thread()
        with self.mutex:
            sleeper = self.sleep(who, signal, deadline, self.changed.notify_all)
            if sleeper is None:
                return signal.is_set()
            limit = None if self.is_job(who) else self.real_timeout
            try:
                while self.sleeps(sleeper):
                    if self.flows and limit is not None and self.pass_time(who):
                        continue
                    if not self.changed.wait(limit):  # nothing at all has happened
                        raise self.unmoved()
            finally:
                if self.sleeps(sleeper):  # an error ends the wait while the sleeper is in the list
                    self.wake(sleeper)
        return signal.is_set()

    def settle(self) -> None:
        """Wait until all workers but the caller sleep or are done."""
        me = threading.current_thread()
        with self.mutex:
            if not self.changed.wait_for(lambda: not self.busy(me), self.real_timeout):
                raise self.unsettled(me)

    def jump(self, moment: float) -> None:
        """Set the time, and wake the sleepers whose deadlines have passed, one after the other."""
        self.settle()
        self.move(moment)
        with self.mutex:
            self.changed.notify_all()
        while self.wake_first():
            self.settle()


class ManualThreadsWorld(ThreadsWorld):
    """The world of threads, on a clock that is moved by hand."""

    def __init__(self, timeline: ThreadsTimeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.now = timeline.now

    def wall_us(self) -> int:
        return int(self.now() * 1e6)

    def random(self) -> float:
        return 0.5

    def signal(self) -> Signal:
        return Flag(self.timeline)

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        return self.timeline.wait(signal, ends_by(deadline, self.limit()))

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        return _Thread(self.timeline, work, label)


class _Thread:
    """A job in a thread of its own; a move of the clock waits for it."""

    def __init__(
        self, timeline: ThreadsTimeline, work: Coroutine[Any, Any, None], label: str
    ) -> None:
        self._timeline = timeline
        self._thread = threading.Thread(target=self._run, args=(work,), name=label, daemon=True)
        timeline.begin(self._thread, label, is_job=True)
        try:
            self._thread.start()
        except RuntimeError:
            timeline.end(self._thread)
            work.close()
            raise

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            drive(work)
        finally:
            self._timeline.end(self._thread)

    async def join(self, deadline: float | None) -> bool:
        if self._thread is threading.current_thread():
            return False
        self._thread.join(
            self._timeline.real_timeout
        )  # real time: the clock stands still meanwhile
        return not self._thread.is_alive()


class Clock:
    """The clock of a ``testing.client()``. It stands still until it is moved.

    A clock that ``flows`` also moves by itself while a call waits for it.
    """

    def __init__(self, real_timeout: float = REAL_TIMEOUT_S, *, flows: bool = False) -> None:
        self._timeline = ThreadsTimeline(real_timeout, flows)
        self._store = Store(ManualThreadsWorld(self._timeline))
        self._store.wall_us = lambda: 0  # so fences are 1, 2, 3, …

    def connect(self, *, faults: Faults | None = None) -> sync.Client:
        """Return another client of the same engine, on the same clock: a rival, as in another
        process.

        With ``faults``, the switches of ``testing.faulty`` are applied between it and the engine.
        """
        world, who = ManualThreadsWorld(self._timeline), threading.current_thread
        core = ManualClockCore(world, self._store, sync.Lease, self._timeline, who, faults)
        return sync.Client(core)

    def now(self) -> float:
        """Return the time of this clock, in seconds."""
        return self._timeline.now()

    def advance(self, by: float) -> None:
        """Jump ahead, as if the process had been frozen meanwhile: no lease was renewed in between.

        When it returns, leases that ran out are lost, their ``on_lost`` has been called, and
        waiters whose time has come have the lock or have given up.
        """
        self._timeline.jump(self.now() + seconds(by))

    def run(self, by: float) -> None:
        """Let time pass as it does in a program that runs: leases are renewed when they are due."""
        end = self.now() + seconds(by)
        self._timeline.settle()
        while (soonest := self._timeline.soonest()) is not None and soonest < end:
            self._timeline.jump(soonest)
        self._timeline.jump(end)

    def settle(self) -> None:
        """Wait until all current work is done; no time passes."""
        self._timeline.settle()

    def until(self, condition: Callable[[], object]) -> None:
        """Wait, in real time, until a condition holds: that a thread of yours waits, say.

        No time passes on this clock.
        """
        give_up = time.monotonic() + self._timeline.real_timeout
        while not condition():
            if time.monotonic() >= give_up:
                raise RuntimeError(f"it was not so within {self._timeline.real_timeout:g} s")
            time.sleep(0.001)
        self.settle()
