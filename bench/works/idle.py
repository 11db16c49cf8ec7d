"""What it costs to wait: 200 waiters before a lock that stays held, in one process and in eight."""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench import usage
from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.work import Column, Target, Work

NAME = "idle"
WAITERS = 200
PROCESSES = 8
SETTLE_S = 2.0


class Idle(Work):
    """Processor time of the waiters, in percent of one core."""

    name = "idle"
    title = f"{WAITERS} waiters before a held lock"
    columns = (
        Column("together", "CPU %, one process"),
        Column("apart", f"CPU %, {PROCESSES} processes"),
    )
    targets = tuple(
        Target(who, key, "at most", 1.0)
        for who in ("fencelock sqlite", "fencelock sqlite asyncio")
        for key in ("together", "apart")
    )
    rounds = 2

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        return {
            "together": _observe(contestant, 1, quick),
            "apart": _observe(contestant, PROCESSES, quick),
        }


def _observe(contestant: Contestant, processes: int, quick: bool) -> float:
    """Percent of one core that all waiters use, spread over so many processes."""
    waiters = (20 if quick else WAITERS) // processes
    seconds = 0.5 if quick else 4.0
    with contestant.connect() as session:
        lock = session.lock(NAME)
        lock.acquire()
        with Crew(_wait, [(contestant, waiters)] * processes) as crew:
            crew.hear()
            time.sleep(0.5 if quick else SETTLE_S)
            crew.say(seconds)
            cores = float(sum(crew.hear()))
        lock.release()
        return cores * 100


def _wait(line: Line, contestant: Contestant, waiters: int) -> None:
    def observe() -> None:
        line.say("waiting")
        seconds = line.hear()
        cpu, wall = usage.cpu_s(), time.monotonic()
        time.sleep(seconds)
        line.say((usage.cpu_s() - cpu) / (time.monotonic() - wall))
        line.hear()  # stay as we are until all have been observed, and are stopped

    contestant.wait_idly(NAME, waiters, observe)
