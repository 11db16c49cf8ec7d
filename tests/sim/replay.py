"""Play one simulated run again: `PYTHONPATH=src python -m tests.sim.replay PROFILE SEED`.

Prints the trace, then what the judge says. With `--digest`, only the name of the trace.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

from tests.sim.fault_profiles import FAULT_PROFILES
from tests.sim.memory_run import MemoryRun


def play(profile: str, seed: int) -> MemoryRun:
    """Play one run; a failure says how to play it again."""
    run = MemoryRun(FAULT_PROFILES[profile], seed)
    try:
        run.run()
    except Exception as error:
        error.add_note(f"replay: PYTHONPATH=src python -m tests.sim.replay {profile} {seed}")
        raise
    return run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.replay", description=__doc__)
    parser.add_argument("profile", choices=FAULT_PROFILES)
    parser.add_argument("seed", type=int)
    parser.add_argument("--defect", help="plant this one of defects.py first")
    parser.add_argument("--digest", action="store_true", help="print only the name of the trace")
    options = parser.parse_args(arguments)
    run = MemoryRun(FAULT_PROFILES[options.profile], options.seed)
    verdict = "every promise held"
    with ExitStack() as stack:
        if options.defect:
            from tests.sim.defects import planted  # it needs pytest, and a plain replay does not

            stack.enter_context(planted(options.defect))
        try:
            run.run()
        except Exception as error:
            verdict = f"{type(error).__name__}: {error}"
    lines = [] if options.digest else [" ".join(map(str, event)) for event in run.simulation.trace]
    lines.append(run.simulation.digest() if options.digest else verdict)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if verdict == "every promise held" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
