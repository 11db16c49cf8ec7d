"""Play one simulated run again: `PYTHONPATH=src python -m tests.sim.replay WEATHER SEED`.

Prints the trace, then what the judge says. With `--digest`, only the name of the trace.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from tests.sim.stage import Stage
from tests.sim.weather import WEATHERS


def play(weather: str, seed: int) -> Stage:
    """Play one run; a failure says how to play it again."""
    stage = Stage(WEATHERS[weather], seed)
    try:
        stage.run()
    except Exception as error:
        error.add_note(f"replay: PYTHONPATH=src python -m tests.sim.replay {weather} {seed}")
        raise
    return stage


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.replay", description=__doc__)
    parser.add_argument("weather", choices=WEATHERS)
    parser.add_argument("seed", type=int)
    parser.add_argument("--defect", help="plant this one of defects.py first")
    parser.add_argument("--digest", action="store_true", help="print only the name of the trace")
    options = parser.parse_args(arguments)
    stage = Stage(WEATHERS[options.weather], options.seed)
    verdict = "every promise held"
    with ExitStack() as stack:
        if options.defect:
            from tests.sim.defects import planted  # it needs pytest, and a plain replay does not

            stack.enter_context(planted(options.defect))
        try:
            stage.run()
        except Exception as error:
            verdict = f"{type(error).__name__}: {error}"
    lines = (
        [] if options.digest else [" ".join(map(str, event)) for event in stage.simulation.trace]
    )
    lines.append(stage.simulation.digest() if options.digest else verdict)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if verdict == "every promise held" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
