"""Pairs that one process serves to many connections, with all that serves on one core.

The core has the service and the store behind it, or the store alone, or the process that calls the
engine itself and its store. What asks has another core, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench import usage
from bench.contestant import Contestant
from bench.crew import Crew, Line
from bench.load import Loaded
from bench.work import Column, Work

CONNECTIONS = 32


class Load(Work):
    """Each connection takes and leaves a lock of its own as fast as it is answered."""

    name = "load"
    title = f"{CONNECTIONS} connections, each takes and leaves a free lock; servers on one core"
    columns = (Column("pairs", "pairs/s"), Column("busy", "CPU % of what asks"))
    rounds = 7

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        assert isinstance(contestant, Loaded)
        first, *others = usage.cores() or [0]
        for process in contestant.processes:
            usage.pin(process, first)
        core = first if contestant.beside_server or not others else others[0]
        with Crew(_ask, [(contestant, core, *((0.1, 0.3) if quick else (0.5, 2.0)))]) as crew:
            (figures,) = crew.hear()
        return dict(figures)


def _ask(line: Line, contestant: Loaded, core: int, warm_s: float, seconds: float) -> None:
    usage.pin(0, core)
    used = usage.cpu_s()
    pairs, spent = contestant.load(CONNECTIONS, warm_s, seconds)
    busy = 100 * (usage.cpu_s() - used) / (warm_s + spent)
    line.say({"pairs": pairs / spent, "busy": busy})
