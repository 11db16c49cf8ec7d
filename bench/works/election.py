"""How long there is no leader: after one has resigned, and after one was killed.

Two processes campaign. Both read CLOCK_MONOTONIC, which is one for all processes of a machine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.work import Column, Work

NAME = "election"
TTL_S = 5.0  # the shortest session that a ZooKeeper server gives by default is 4 s
SETTLE_S = 0.2  # for the other to join the queue
SPREAD_S = 0.1


class Election(Work):
    """A leader and one who would be."""

    name = "election"
    title = "from one leader to the next, two processes"
    columns = (
        Column("resigned_ms", "resigned ms"),
        Column("slow_ms", "slowest ms", worst=True),
        Column("killed_s", f"killed, ttl {TTL_S:g} s: s"),
        Column("beyond_s", "beyond the ttl, s", worst=True),
    )
    rounds = 5

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        turns = 4 if quick else 20
        with Crew(_campaign, [(contestant,), (contestant,)]) as crew:
            crew.hear()
            leader, other = 0, 1
            _elect(crew, leader)
            gaps_ms: list[float] = []
            for _ in range(turns):
                crew.tell(other, "campaign")
                time.sleep(SETTLE_S + random.random() * SPREAD_S)
                crew.tell(leader, "resign")
                left_ns, won_ns = crew.hear_one(leader), crew.hear_one(other)
                gaps_ms.append((won_ns - left_ns) / 1e6)
                leader, other = other, leader
            crew.tell(other, "campaign")
            time.sleep(SETTLE_S + random.random() * TTL_S / 2)  # at any moment between renewals
            killed_ns = time.monotonic_ns()
            crew.kill(leader)
            killed_s = (crew.hear_one(other) - killed_ns) / 1e9
        return {
            "resigned_ms": median(gaps_ms),
            "slow_ms": max(gaps_ms),
            "killed_s": killed_s,
            "beyond_s": killed_s - TTL_S,
        }


def _elect(crew: Crew, number: int) -> None:
    crew.tell(number, "campaign")
    crew.hear_one(number)


def _campaign(line: Line, contestant: Contestant) -> None:
    with contestant.connect() as session:
        election = session.candidate(NAME, TTL_S)
        line.say("ready")
        while True:
            if line.hear() == "campaign":
                election.acquire()
                line.say(time.monotonic_ns())
            else:
                left_ns = time.monotonic_ns()
                election.release()
                line.say(left_ns)
