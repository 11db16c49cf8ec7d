"""What it costs to wait: 200 waiters before a lock that stays held, in one process and in eight.

What a server sees of them is counted for the one process, the holder's own requests and connections
not among them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from bench import usage
from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.work import Column, Work

NAME = "idle"
WAITERS = 200
PROCESSES = 8
SETTLE_S = 2.0
APART_S = 4.0


class Idle(Work):
    """Processor time of the waiters, in percent of one core."""

    name = "idle"
    title = f"{WAITERS} waiters before a held lock"
    columns = (
        Column("together", "CPU %, one process"),
        Column("apart", f"CPU %, {PROCESSES} processes"),
        Column("requests", "requests/s"),
        Column("connections", "connections of one process"),
        Column("listening", "of these listening"),
    )
    rounds = 2

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        seconds = (0.5, 0.5) if quick else (contestant.idle_s, APART_S)
        apart = _observe(contestant, PROCESSES, seconds[1], quick)["cpu"]
        together = _observe(contestant, 1, seconds[0], quick)
        return {"together": together.pop("cpu"), "apart": apart, **together}


def _observe(
    contestant: Contestant, processes: int, seconds: float, quick: bool
) -> dict[str, float]:
    """What all waiters use, spread over so many processes; CPU in percent of one core."""
    waiters = (20 if quick else WAITERS) // processes
    with contestant.connect() as session, contestant.gauge() as gauge:
        lock = session.lock(NAME)
        lock.acquire()
        alone = gauge.look()
        with Crew(_wait, [(contestant, waiters)] * processes) as crew:
            crew.hear()
            time.sleep(0.5 if quick else SETTLE_S)
            before = gauge.look()
            crew.say(seconds)
            figures = {"cpu": float(sum(crew.hear())) * 100}
            after = gauge.look()
        lock.release()
    if alone is not None and before is not None and after is not None:
        figures["requests"] = (after.requests - before.requests) / seconds
        figures["connections"] = after.connections - alone.connections
        figures["listening"] = after.listening - alone.listening
    return figures


def _wait(line: Line, contestant: Contestant, waiters: int) -> None:
    def observe() -> None:
        line.say("waiting")
        seconds = line.hear()
        cpu, wall = usage.cpu_s(), time.monotonic()
        time.sleep(seconds)
        line.say((usage.cpu_s() - cpu) / (time.monotonic() - wall))
        line.hear()  # stay as we are until all have been observed, and are stopped

    contestant.wait_idly(NAME, waiters, observe)
