"""What a lock adds to the start of a program: its import, and the first time it is taken."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.work import Column, Work

TIMEOUT_S = 60.0


class Import(Work):
    """The whole life of a process, from start to end; bare Python is the floor."""

    name = "import"
    title = "a process that imports it, and one that takes its first lock"
    columns = (Column("import_ms", "import ms"), Column("first_ms", "first lock ms"))
    rounds = 15
    rounds_quick = 3

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        count = 1 if quick else 3
        return {
            "import_ms": _time(contestant.import_line(), count),
            "first_ms": _time(contestant.first_use(), count),
        }


def _time(program: str, count: int) -> float:
    """Milliseconds of the median run; the one before them leaves the compiled files behind."""
    environment = {**os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    spent = [_run([sys.executable, "-c", program], environment) for _ in range(count + 1)]
    return median(spent[1:]) * 1000


def _run(command: list[str], environment: dict[str, str]) -> float:
    """Seconds until the process has ended."""
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
