"""Play many seeds and count: `PYTHONPATH=src python -m tests.sim.survey [BACKEND] --seeds 0 800`.

Every climate is played with each of the seeds, and each history is judged. It says how many there
were, what befell them and what was found; a run that fails is made smaller and named, with the
command that plays it again. It ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter

from tests.sim.backends import BACKENDS, SHARED
from tests.sim.harness import PLAYED, Run
from tests.sim.plan import CLIMATES, RECIPES
from tests.sim.runs import Broken, examine

COLUMNS = ("histories", "steps", "grants", "faults", "leases lost", "stale refused", "broken")
FAULTS = {"pause", "crash", "partition", "clock"}


def counted(run: Run) -> Counter[str]:
    """What happened in one run."""
    notes = Counter(event.verb for event in run.history if event.kind == "note")
    stale = sum(event.kind == "fail" and event.detail == "stale" for event in run.history)
    return Counter(
        {
            "histories": 1,
            "steps": run.simulation.steps,
            "grants": run.grants,
            "faults": sum(notes[verb] for verb in FAULTS),
            "leases lost": notes["lost"],
            "stale refused": stale,
        }
    )


def survey(backend: str, seeds: range, recipe: str = "lock") -> Counter[str]:
    """Play and judge; tell of what fails."""
    found: Counter[str] = Counter()
    for climate in CLIMATES:
        for seed in seeds:
            try:
                found += counted(examine(backend, climate, seed, recipe=recipe))
            except Broken as broken:
                found += Counter({"histories": 1, "broken": 1})
                sys.stdout.write(f"{backend} {climate} {seed}: {broken}\n")
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.survey", description=__doc__)
    parser.add_argument("backends", nargs="*", metavar="BACKEND", help=f"of {', '.join(PLAYED)}")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50), metavar=("FROM", "TO"))
    parser.add_argument("--recipe", choices=RECIPES, default="lock", help="what is played (lock)")
    options = parser.parse_args(arguments)
    logging.getLogger("fencelock").disabled = True  # leases are lost in masses
    sys.stdout.write(f"{'':8}" + "".join(f"{name:>15}" for name in COLUMNS) + "\n")
    broken = 0
    for backend in options.backends or (BACKENDS if options.recipe == "lock" else SHARED):
        found = survey(backend, range(*options.seeds), options.recipe)
        broken += found["broken"]
        sys.stdout.write(f"{backend:8}" + "".join(f"{found[name]:15,}" for name in COLUMNS) + "\n")
        sys.stdout.flush()
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
