"""One seed gives one history: here, in any order of hashes, and on every other Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.backends import BACKENDS
from tests.sim.harness import Run
from tests.sim.plan import draw_plan
from tests.sim.record import name_of, recorded, runs

ROOT = Path(__file__).parents[2]
COMMAND = "PYTHONPATH=src python -m tests.sim.record"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_recorded_seed_is_played_as_it_was_recorded(backend: str) -> None:
    """Each run of the tests has another seed of hashes, and each Python of ours runs them."""
    known = {run: name for run, name in recorded().items() if run.split()[0] == backend}
    other = [run for run, name in known.items() if name_of(*run.split()) != name]
    assert not other, (
        f"{len(other)} of {len(known)} runs differ from their record, such as {other[0]!r}. If "
        f"what happens was meant to change, record it anew: {COMMAND}. If not, see whether it "
        "differs between two Pythons, or two values of PYTHONHASHSEED"
    )


@pytest.mark.parametrize("climate", ["storm", "amnesia"])
@pytest.mark.parametrize("backend", ["redis", "redlock"])
def test_the_model_of_redis_plays_alike_in_the_lua_of_the_real_one(
    backend: str, climate: str
) -> None:
    """LuaJIT is quicker and is what all other runs use; a server has Lua 5.1."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sim.runs", backend, climate, "4", "--digest"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src", "FENCELOCK_SIM_LUA": "lua51"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == Run(backend, draw_plan(climate, 4)).play().simulation.digest()


def test_all_casts_and_climates_are_recorded() -> None:
    assert list(recorded()) == runs(), f"record them: {COMMAND}"
