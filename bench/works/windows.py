"""Work that is done once in every window, by one of many processes whose clocks differ.

Each process has a wall clock of its own: up to two seconds off, and ten times as fast as that of
the machine, so that a hundred windows of five seconds are over in less than a minute. Everything
else, the leases and the engine, keeps to real time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from functools import partial

from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.work import Column, Work

NAME = "windows"
PROCESSES = 20
EVERY_S = 5.0
APART_S = 2.0
FASTER = 10


class Windows(Work):
    """The runs of each window are counted."""

    name = "windows"
    title = f"{PROCESSES} processes, clocks ±{APART_S:g} s, windows of {EVERY_S:g} s"
    columns = (
        Column("runs", "runs/100 windows"),
        Column("twice", "windows done twice", worst=True),
        Column("left_out", "left out", worst=True),
        Column("requests", "requests/process"),
    )
    rounds = 1

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        windows = 10 if quick else 100
        jobs = [
            (contestant, APART_S * (2 * number / (PROCESSES - 1) - 1))
            for number in range(PROCESSES)
        ]
        with contestant.gauge() as gauge, Crew(_work_in_windows, jobs) as crew:
            crew.hear()
            before = gauge.look()
            epoch = time.time()
            first = int(epoch // EVERY_S) + 3  # when all have started, on every clock
            crew.say((epoch, first, windows))
            runs = Counter(number for log in crew.hear() for number in log)
            after = gauge.look()
            crew.say("you may go")
        wanted = range(first, first + windows)
        figures = {
            "runs": sum(runs[number] for number in wanted) / windows * 100,
            "twice": sum(count > 1 for count in runs.values()),
            "left_out": sum(not runs[number] for number in wanted),
        }
        if before is not None and after is not None:
            asked = after.requests - before.requests
            figures["requests"] = asked / windows / PROCESSES
        return figures


def _work_in_windows(line: Line, contestant: Contestant, off_s: float) -> None:
    with contestant.connect() as session:
        lock = session.lock("first")
        lock.acquire()
        lock.release()
        line.say("ready")
        epoch, first, windows = line.hear()
        log: list[int] = []
        for number in range(first, first + windows):
            time.sleep(max(0.0, number * EVERY_S - _wall_s(epoch, off_s)) / FASTER)
            wall_s = _wall_s(epoch, off_s)
            session.do_once(NAME, EVERY_S, wall_s, partial(log.append, int(wall_s // EVERY_S)))
        line.say(log)
        line.hear()


def _wall_s(epoch: float, off_s: float) -> float:
    """A wall clock that is so far off, and runs ahead from a moment that all share."""
    return epoch + (time.time() - epoch) * FASTER + off_s
