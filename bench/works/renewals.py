"""What it costs to hold: 10,000 leases of one process, renewed in the background."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Mapping

from bench import usage
from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.ours import Ours
from bench.work import Column, Work

LEASES = 10_000
LOOK_S = 0.25
MB = 1e6


class Renewals(Work):
    """Each figure is from a process of its own; that with tracemalloc is not timed."""

    name = "renewals"
    title = f"{LEASES:,} leases held with renewal, one process"
    columns = (
        Column("cpu_9", "CPU %, ttl 9 s"),
        Column("cpu_30", "CPU %, ttl 30 s"),
        Column("requests", "requests/s, ttl 9 s"),
        Column("resident_mb", "resident MB"),
        Column("traced_mb", "traced MB"),
        Column("threads", "threads at most", worst=True),
        Column("lost", "lost", worst=True),
        Column("server_mb", "MB more in the server"),
    )
    rounds = 1

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        count = 200 if quick else LEASES
        short, long = ((1.0, 1.2), (2.0, 2.2)) if quick else ((9.0, 12.0), (30.0, 31.0))
        nine = _hold(contestant, count, *short)
        thirty = _hold(contestant, count, *long)
        traced = _hold(contestant, count, 60.0, 0.0, traced=True)
        figures = {
            "cpu_9": nine["cpu"],
            "cpu_30": thirty["cpu"],
            "resident_mb": max(nine["resident_mb"], thirty["resident_mb"]),
            "traced_mb": traced["traced_mb"],
            "threads": max(nine["threads"], thirty["threads"]),
            "lost": nine["lost"] + thirty["lost"] + traced["lost"],
        }
        for key in ("requests", "server_mb"):
            if key in nine:
                figures[key] = nine[key]
        return figures


def _hold(
    contestant: Contestant, count: int, ttl: float, seconds: float, traced: bool = False
) -> dict[str, float]:
    with Crew(_watch, [(contestant, count, ttl, seconds, traced)]) as crew:
        (figures,) = crew.hear()
    return dict(figures)


def _watch(
    line: Line, contestant: Contestant, count: int, ttl: float, seconds: float, traced: bool
) -> None:
    assert isinstance(contestant, Ours)
    figures: dict[str, float] = {}

    def ready() -> None:
        with contestant.gauge() as gauge:
            served = gauge.look()
        figures["server_before"] = served.memory if served is not None else 0
        figures["before"] = usage.resident_bytes()
        if traced:
            tracemalloc.start()

    def observe() -> None:
        if traced:
            figures["traced_mb"] = tracemalloc.get_traced_memory()[0] / MB
            tracemalloc.stop()
        with contestant.gauge() as gauge:
            before = gauge.look()
            cpu, wall = usage.cpu_s(), time.monotonic()
            threads = _threads()
            while time.monotonic() < wall + seconds:
                time.sleep(LOOK_S)
                threads = max(threads, _threads())
            figures["cpu"] = 100 * (usage.cpu_s() - cpu) / max(seconds, LOOK_S)
            figures["threads"] = threads
            figures["resident_mb"] = (usage.resident_bytes() - figures["before"]) / MB
            after = gauge.look()
        if before is not None and after is not None:
            figures["requests"] = (after.requests - before.requests) / max(seconds, LOOK_S)
            if after.memory:
                figures["server_mb"] = (after.memory - figures["server_before"]) / MB

    figures["lost"] = count - contestant.hold(count, ttl, ready, observe)
    line.say(figures)


def _threads() -> int:
    return sum(thread.name.startswith("fencelock") for thread in threading.enumerate())
