"""How fast the simulation is: `PYTHONPATH=src python -m tests.sim.pace [BACKEND ...] [--cores N]`.

A step is what the scheduler counts: one task run from one trap to the next, or one thing that came
due, such as a message that arrived or a wait whose time was over. The clock is that of the CPU,
from when a run is set up until it has ended; its verdict comes after that. The same seeds of all
climates are played several times, and the quickest time of each counts: the machine may have other
work, the simulation has always the same.

With several cores there is a last line: what so many processes play in one second by the clock on
the wall when each plays all of it at once with the others, as a survey of many seeds would.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.sim.backends import BACKENDS
from tests.sim.harness import Run
from tests.sim.plan import CLIMATES, draw_plan


def measured(backend: str, climate: str, seed: int, times: int) -> tuple[int, float]:
    """The steps of a run, and the seconds that they took."""
    plan, steps, best = draw_plan(climate, seed), 0, float("inf")
    for _ in range(times):
        began = time.process_time()
        run = Run(backend, plan).play()
        best = min(best, time.process_time() - began)
        steps = run.simulation.steps
    return steps, best


def played(backends: list[str], seeds: int, times: int) -> tuple[int, float, float]:
    """All steps of one process, and when it began and ended."""
    logging.getLogger("fencelock").disabled = True  # as in the tests: leases are lost in masses
    began, steps = time.monotonic(), 0
    for _ in range(times):
        for backend in backends:
            for climate in CLIMATES:
                for seed in range(seeds):
                    steps += Run(backend, draw_plan(climate, seed)).play().simulation.steps
    return steps, began, time.monotonic()


def together(cores: int, backends: list[str], seeds: int, times: int) -> float:
    """How many steps so many processes make in a second, all at once."""
    with ProcessPoolExecutor(cores) as pool:
        runs = [pool.submit(played, backends, seeds, times) for _ in range(cores)]
        found = [run.result() for run in runs]
    seconds = max(ended for _, _, ended in found) - min(began for _, began, _ in found)
    return sum(steps for steps, _, _ in found) / seconds


def told(backend: str, seeds: int, times: int) -> tuple[int, float]:
    """Print the pace of one backend; return its steps, and the seconds that they took."""
    paces: dict[str, float] = {}
    all_steps, all_took = 0, 0.0
    for climate in CLIMATES:
        found = [measured(backend, climate, seed, times) for seed in range(seeds)]
        steps, took = sum(one[0] for one in found), sum(one[1] for one in found)
        paces[climate] = steps / took
        all_steps, all_took = all_steps + steps, all_took + took
    slowest, quickest = min(paces, key=paces.__getitem__), max(paces, key=paces.__getitem__)
    extremes = f"({slowest} {paces[slowest]:,.0f}/s, {quickest} {paces[quickest]:,.0f}/s)"
    write(backend, all_steps, all_took, extremes)
    return all_steps, all_took


def write(what: str, steps: int, took: float, extremes: str = "") -> None:
    each, pace = took / steps * 1e6, steps / took
    line = f"{what:8} {steps:7,} steps  {each:5.2f} us each  {pace:9,.0f}/s  {extremes}"
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.pace", description=__doc__)
    parser.add_argument("backends", nargs="*", metavar="BACKEND", help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--seeds", type=int, default=3, help="of each climate (3)")
    parser.add_argument("--times", type=int, default=10, help="that each is played (10)")
    parser.add_argument("--cores", type=int, default=1, help="so many processes at once, too (1)")
    options = parser.parse_args(arguments)
    backends = options.backends or list(BACKENDS)
    logging.getLogger("fencelock").disabled = True  # as in the tests: leases are lost in masses
    lines = [told(backend, options.seeds, options.times) for backend in backends]
    if len(lines) > 1:
        write("all", sum(steps for steps, _ in lines), sum(took for _, took in lines))
    if options.cores > 1:
        pace = together(options.cores, backends, options.seeds, options.times)
        sys.stdout.write(
            f"{options.cores} processes at once, {', '.join(backends)}: {pace:,.0f}/s\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
