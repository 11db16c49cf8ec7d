"""The background timer of engines: nothing that is due is forgotten, whatever goes wrong."""

from __future__ import annotations

import threading

from fencelock.engines.timer import NEVER, Timer
from fencelock.worlds.threads import ThreadsWorld, drive

SOON_S = 5.0


class Due:
    """What is due, and how often it was looked at."""

    def __init__(self) -> None:
        self.world = ThreadsWorld()
        self.moments: list[float] = []
        self.done: list[float] = []
        self.runs = 0
        self.ran = threading.Event()
        self.error: Exception | None = None
        self.timer = Timer(self.world, self._run, "fencelock-test")

    def add(self, seconds: float) -> None:
        self.moments.append(self.world.now() + seconds)
        self.timer.expect(self.moments[-1])

    async def _run(self) -> float:
        self.runs += 1
        error, self.error = self.error, None
        if error is not None:
            raise error
        now = self.world.now()
        for moment in [moment for moment in self.moments if moment <= now]:
            self.moments.remove(moment)
            self.done.append(moment)
            self.ran.set()
        return min(self.moments, default=NEVER)


def test_what_is_due_earlier_is_not_kept_waiting_by_what_is_due_later() -> None:
    due = Due()
    due.add(1000.0)
    due.add(0.01)
    assert due.ran.wait(SOON_S)
    assert len(due.moments) == 1
    drive(due.timer.close())


def test_an_error_does_not_end_the_timer() -> None:
    due = Due()
    due.error = ValueError("a bug")
    due.add(0.01)
    assert due.ran.wait(SOON_S)
    drive(due.timer.close())


def test_a_closed_timer_begins_nothing() -> None:
    due = Due()
    due.timer.close_nowait()
    due.add(0.0)
    drive(due.timer.close())
    assert due.runs == 0


def test_what_comes_while_it_runs_is_looked_at_once_more() -> None:
    due = Due()
    inner = due._run  # pyright: ignore[reportPrivateUsage]

    async def run() -> float:
        soonest = await inner()
        if due.runs == 1:  # after it has looked, before it says when it wants to be called
            due.add(0.0)
        return soonest

    due.timer = Timer(due.world, run, "fencelock-test")
    due.add(1000.0)
    assert due.ran.wait(SOON_S)
    drive(due.timer.close())
