"""The histories of some seeds, as names in a file: every Python must play them alike.

`PYTHONPATH=src python -m tests.sim.record` writes the file anew. Do so when a change of the
protocol, of the scripts or of the simulation was meant to change what happens, and only then:
otherwise what differs is a difference between Pythons, or chance that does not come from the seed.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from pathlib import Path

from tests.sim.backends import BACKENDS, SHARED
from tests.sim.harness import Run
from tests.sim.plan import CLIMATES, RECIPES, draw_plan

RECORDED = Path(__file__).with_name("recorded.txt")
SEEDS = (1, 2, 3)
OF_RECIPES = ("naps", "clocks", "frozen", "storm")
PLAIN = ", role='', units=0, limit=0, slot=None)"  # mutexes were recorded before there were others
RENEWED = ", until=0.0)"  # and all before there were leases that nobody renews


def runs() -> list[str]:
    """The runs that are recorded: backend, climate and seed, and the recipe if it is not a lock."""
    locks = [f"{b} {climate} {seed}" for b in BACKENDS for climate in CLIMATES for seed in SEEDS]
    return locks + [
        f"{backend} {climate} 1 {recipe}"
        for backend in SHARED
        for recipe in RECIPES[1:]
        for climate in OF_RECIPES
    ]


def name_of(backend: str, climate: str, seed: str, recipe: str = "lock") -> str:
    """A short name for all that happened in a run: equal for equal histories."""
    run = Run(backend, draw_plan(climate, int(seed), recipe)).play()
    events = repr(run.history.events).replace(RENEWED, ")").replace(PLAIN, ")")
    text = f"{run.simulation.digest()} {events}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def recorded() -> dict[str, str]:
    """What the file says."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return {run: name for run, _, name in (line.rpartition(" ") for line in lines)}


if __name__ == "__main__":
    logging.getLogger("fencelock").disabled = True
    lines = [f"{run} {name_of(*run.split())}\n" for run in runs()]
    RECORDED.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} runs recorded\n")
