"""What it costs to run a command under a lock from a shell."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.contestants.commands import Command
from bench.work import Column, Work

TIMEOUT_S = 60.0


class Cli(Work):
    """The whole life of the program around `true`, less that of `true` alone."""

    name = "cli"
    title = "run `true` under a free lock, from a shell"
    columns = (Column("over_ms", "over true ms"), Column("wall_ms", "wall ms"))
    rounds = 15
    rounds_quick = 3

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        assert isinstance(contestant, Command)
        count = 1 if quick else 3
        _time(contestant.line())  # leaves the compiled files and the lock's own file behind
        floor = median([_time(["true"]) for _ in range(count)])
        spent = median([_time(contestant.line()) for _ in range(count)])
        return {"over_ms": (spent - floor) * 1000, "wall_ms": spent * 1000}


def _time(command: list[str]) -> float:
    """Seconds until the program has ended."""
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    with subprocess.Popen(command, env=environment) as process:
        # A wait with a timeout would poll, ever more slowly: the timer ends one without.
        timer = threading.Timer(TIMEOUT_S, process.kill)
        timer.start()
        status = process.wait()
        spent = time.perf_counter() - begun
        timer.cancel()
    if status != 0:
        raise RuntimeError(f"the program ended with status {status}")
    return spent
