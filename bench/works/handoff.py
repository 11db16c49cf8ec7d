"""Eight processes that want the same lock all the time, and do nothing while they have it.

Each keeps a log of when it asked, joined the queue, got the lock and left it, on CLOCK_MONOTONIC,
which is one clock for all processes. The logs are put together afterward, so that keeping them
disturbs nobody. Two things are judged from them:

* Overlap: a process got the lock before another began to leave it. There must be none.
* Overtaking: B got the lock before A, although B asked when A already stood in the queue. For our
  own engines this is proof: A stood there when the engine had said so, and the fences are the order
  of the grants. Other locks do not tell. There A is taken to wait 5 ms after it asked, so what is
  overtaken sooner goes unseen, in the lock's favor; a process that was kept from running in between
  counts as overtaken, to its disfavor.

Rates are of the time that all contend. What a grant costs the server is told of all turns, and so
that the start, where nobody knows the others yet, weighs little on a slow machine, too, a process
that has had few turns by the end goes on for a while.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from bench import usage
from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.work import Column, Work

NAME = "handoff"
PROCESSES = 8
CERTAIN_NS = 5_000_000
TURNS_MAX = 500_000  # of one process
TURNS_MIN = 300
LATE_S = 60.0  # how long to go on for these, at most


class Turn(NamedTuple):
    """One hold of one process; times in nanoseconds."""

    who: int
    asked: int
    joined: int
    """When it waited for certain."""
    got: int
    left: int
    """When it began to release."""
    fence: int


class Handoff(Work):
    """A hand-off is a grant to another process than the last one."""

    name = "handoff"
    title = f"{PROCESSES} processes on one lock, nothing done inside"
    columns = (
        Column("handoffs", "hand-offs/s"),
        Column("grants", "grants/s"),
        Column("requests", "requests/grant"),
        Column("overtaking", "overtaking %", worst=True),
        Column("longest_ms", "longest wait ms", worst=True),
        Column("cpu_us", "CPU µs/grant"),
        Column("overlaps", "overlaps", worst=True),
    )
    rounds = 5

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        seconds = 0.5 if quick else 3.0
        jobs = [(contestant, number) for number in range(PROCESSES)]
        with contestant.gauge() as gauge, Crew(_wait_in_queue, jobs) as crew:
            crew.hear()
            before = gauge.look()
            begin = time.monotonic_ns() + 50_000_000
            end = begin + int(seconds * 1e9)
            crew.say((begin, end, 0 if quick or before is None else TURNS_MIN))
            reports = crew.hear()
            after = gauge.look()
            crew.say("you may go")
        turns = sorted((turn for log, _ in reports for turn in log), key=lambda t: (t.fence, t.got))
        figures = judge(turns, end) | {
            "handoffs": changes(turns, end) / seconds,
            "grants": sum(turn.got < end for turn in turns) / seconds,
            "cpu_us": sum(cpu for _, cpu in reports) / max(1, len(turns)) * 1e6,
        }
        if before is not None and after is not None:
            asked = after.requests - before.requests
            # A waiter that makes sure now and then, a few times a second, is no part of a hand-off.
            figures["requests"] = round(asked / max(1, len(turns)), 2)
        return figures


def judge(turns: Sequence[Turn], end: int) -> dict[str, float]:
    """Who overlapped and who was overtaken, of turns in the order in which they were granted."""
    overlaps = sum(after.got < before.left for before, after in pairwise(turns))
    overtaking, granted, longest = 0, 0, 0
    first_joined: float = float("inf")  # of all who were granted later
    for turn in reversed(turns):
        if turn.got < end:
            granted += 1
            overtaking += first_joined < turn.asked
            longest = max(longest, turn.got - turn.asked)
        first_joined = min(first_joined, turn.joined)
    return {
        "overlaps": overlaps,
        "overtaking": 100 * overtaking / max(1, granted),
        "longest_ms": longest / 1e6,
    }


def changes(turns: Sequence[Turn], end: int) -> int:
    """How often the lock went from one process to another."""
    return sum(before.who != after.who and after.got < end for before, after in pairwise(turns))


def _wait_in_queue(line: Line, contestant: Contestant, number: int) -> None:
    clock = time.monotonic_ns
    with contestant.connect(traced=True) as session:
        lock = session.lock(NAME)
        lock.acquire()
        lock.release()
        line.say("ready")
        begin, end, enough = line.hear()
        late = end + int(LATE_S * 1e9)

        def ask(had: int) -> int:
            now = clock()
            return now if now < (end if had >= enough else late) and had < TURNS_MAX else 0

        time.sleep(max(0.0, (begin - clock()) / 1e9))
        used = usage.cpu_s()
        log = session.take_turns(lock, ask)
        used = usage.cpu_s() - used
        line.say(([Turn(number, a, _waited(a, j, g, f), g, x, f) for a, j, g, x, f in log], used))
        line.hear()  # closing costs requests, too, and is no part of a hand-off


def _waited(asked: int, joined: int, got: int, fence: int) -> int:
    """When a turn waited for certain. One that our engine granted at once never did."""
    if fence:
        return joined or got
    return asked + CERTAIN_NS
