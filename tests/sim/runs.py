"""Play runs and judge them: `PYTHONPATH=src python -m tests.sim.runs BACKEND CLIMATE SEED`.

Prints the history and the verdict; `--html FILE` writes a page that shows it. A run that fails is
made smaller first, and what it raises names the command that plays the small one again, and a page
of it in the folder for temporary files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from fencelock.judge import Event
from tests.sim.harness import PLAYED, Run
from tests.sim.page import page
from tests.sim.plan import CLIMATES, OF_SERVICE, RECIPES, Plan, draw_plan, shrink


class Broken(AssertionError):
    """A promise was broken, in a run that is as small as it could be made."""


def examine(
    backend: str, climate: str, seed: int, guarded: bool = True, recipe: str = "lock"
) -> Run:
    """Play a run; raise Broken with the way to play it again if the verdict is no."""
    plan = draw_plan(climate, seed, recipe)
    run = Run(backend, plan, guarded).play()
    if run.verdict().passed:
        return run
    wanted = {violation.checker for violation in run.verdict().violations}
    small = shrink(plan, lambda fewer: bool(wanted & faults(backend, fewer, guarded)))
    found = Run(backend, small, guarded).play().verdict().violations
    lines = [f"{violation.checker}: {violation.message}" for violation in found]
    lines.append(f"page: {written(backend, small, guarded)}")
    raise Broken("\n".join([*lines, f"replay: {command(backend, small, guarded)}"]))


def written(
    backend: str, plan: Plan, guarded: bool, path: Path | None = None, defect: str = ""
) -> Path:
    """Write the page of a plan, by default where its name says which it is; return its path."""
    if path is None:
        name = f"{backend}-{plan.climate}-{plan.seed}-{plan.recipe}-{os.getpid()}.html"
        path = Path(tempfile.gettempdir(), f"fencelock-{name}")
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    again = command(backend, plan, guarded) + (f" --defect {defect}" if defect else "")
    path.write_text(page(backend, plan, again, date, guarded), encoding="utf-8")
    return path


def faults(backend: str, plan: Plan, guarded: bool = True) -> set[str]:
    """The checkers that say no to a plan."""
    found = Run(backend, plan, guarded).play().verdict().violations
    return {violation.checker for violation in found}


def command(backend: str, plan: Plan, guarded: bool = True) -> str:
    """What plays a plan again."""
    words = [f"PYTHONPATH=src python -m tests.sim.runs {backend} {plan.climate} {plan.seed}"]
    if plan.recipe != "lock":
        words.append(f"--recipe {plan.recipe}")
    if plan.parts() != draw_plan(plan.climate, plan.seed, plan.recipe).parts():
        words.append(f"--only {','.join(plan.parts())}")
    return " ".join(words if guarded else [*words, "--unguarded"])


def told(event: Event) -> str:
    """An event as a line."""
    words = [event.kind, event.verb, event.name, event.fence or "", event.detail]
    words += [event.role and f"({event.role})", "" if event.slot is None else f"slot {event.slot}"]
    value = "" if event.value is None else f"= {event.value}"
    return f"{event.at:10.6f}  {event.client:9} {' '.join(str(w) for w in words if w)} {value}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.runs", description=__doc__)
    parser.add_argument("backend", choices=PLAYED)
    parser.add_argument("climate", choices=CLIMATES | OF_SERVICE)
    parser.add_argument("seed", type=int)
    parser.add_argument("--recipe", choices=RECIPES, default="lock", help="what is played (lock)")
    parser.add_argument("--only", help="these clients and faults alone, with commas between")
    parser.add_argument("--unguarded", action="store_true", help="let the register take all")
    parser.add_argument(
        "--defect", help="plant this one of flaws.py, recipe_flaws.py or service_flaws.py"
    )
    parser.add_argument("--digest", action="store_true", help="print only the name of the trace")
    parser.add_argument("--save", metavar="FILE", help="write the history as JSON lines")
    parser.add_argument("--html", metavar="FILE", help="write a page that shows what happened")
    options = parser.parse_args(arguments)
    plan = draw_plan(options.climate, options.seed, options.recipe)
    if options.only:
        plan = plan.only(options.only.split(","))
    with ExitStack() as stack:
        if options.defect:
            from tests.sim import (
                flaws,
                recipe_flaws,
                service_flaws,
            )  # pytest, which no replay needs

            known = flaws.FLAWS | recipe_flaws.RECIPE_FLAWS | service_flaws.SERVICE_FLAWS
            stack.enter_context(flaws.planting(known[options.defect]))
        run = Run(options.backend, plan, guarded=not options.unguarded).play()
        if options.html:
            file, defect = Path(options.html), options.defect or ""
            written(options.backend, plan, not options.unguarded, file, defect)
    if options.save:
        run.history.save(options.save)
    found = run.verdict()
    lines = [run.simulation.digest()]
    if not options.digest:
        lines = [*map(told, run.history), str(found), f"{run.simulation.steps} steps"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if found.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
