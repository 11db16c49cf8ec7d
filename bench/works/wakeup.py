"""How long a lock that was released waits for its next holder.

The harness holds the lock, a child waits for it. Both read CLOCK_MONOTONIC, which is one for all
processes of a machine. The release itself is part of the time: the waiter has to wait for it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.work import Column, Work

NAME = "wakeup"
SETTLE_S = 0.03  # for the waiter to join the queue
SPREAD_S = 0.1  # so that no poller falls into step with us


class Wakeup(Work):
    """One waiter, in another process."""

    name = "wakeup"
    title = "release until the next holder has it, two processes"
    columns = (
        Column("wakeup_ms", "ms"),
        Column("slow_ms", "9 of 10 within, ms"),
        Column("samples", "samples"),
    )
    rounds = 3

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        count, seconds = (5, 2.0) if quick else (40, 4.0)
        waits_ms: list[float] = []
        with Crew(_wait, [(contestant,)]) as crew, contestant.connect() as session:
            lock = session.lock(NAME)
            crew.hear()
            until = time.monotonic() + seconds
            while len(waits_ms) < count and time.monotonic() < until:
                lock.acquire()
                crew.say(True)
                crew.hear()
                time.sleep(SETTLE_S + random.random() * SPREAD_S)
                left_ns = time.monotonic_ns()
                lock.release()
                (got_ns,) = crew.hear()
                waits_ms.append((got_ns - left_ns) / 1e6)
            crew.say(False)
            crew.hear()
        waits_ms.sort()
        return {
            "wakeup_ms": median(waits_ms),
            "slow_ms": waits_ms[len(waits_ms) * 9 // 10],
            "samples": len(waits_ms),
        }


def _wait(line: Line, contestant: Contestant) -> None:
    with contestant.connect() as session:
        lock = session.lock(NAME)
        line.say("ready")
        while line.hear():
            line.say("asking")
            lock.acquire()
            got_ns = time.monotonic_ns()
            lock.release()
            line.say(got_ns)
    line.say("done")
