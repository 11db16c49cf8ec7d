"""One seed decides everything: the same run in this process, in another, and on another Python."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fencelock import lab
from fencelock.lab import message_text
from tests.sim.fault_profiles import FAULT_PROFILES
from tests.sim.flaws import planted
from tests.sim.replay import main, play

ROOT = Path(__file__).parents[2]
PYTHONS = [f"python3.{minor}" for minor in (11, 12, 13, 14)]


def replayed(python: str, profile: str, seed: int, hash_seed: int) -> str:
    """The digest of a run in a fresh interpreter, which need not have pytest."""
    run = subprocess.run(
        [python, "-W", "error", "-m", "tests.sim.replay", profile, str(seed), "--digest"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


@pytest.mark.parametrize("profile", FAULT_PROFILES)
def test_the_same_seed_gives_the_same_trace(profile: str) -> None:
    first, again, other = (play(profile, seed).simulation for seed in (1, 1, 2))
    assert first.trace == again.trace
    assert first.digest() == again.digest()
    assert first.digest() != other.digest()


@pytest.mark.parametrize("hash_seed", [0, 1, 4_000_000_000])
def test_the_order_of_hashes_changes_nothing(hash_seed: int) -> None:
    here = play("storm", 3).simulation.digest()
    assert replayed(sys.executable, "storm", 3, hash_seed) == here


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_gives_the_same_trace(python: str) -> None:
    if shutil.which(python) is None:
        pytest.skip(f"no {python} on PATH")
    if subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"{python} on PATH does not start")
    for profile in ("slow", "storm"):
        assert replayed(python, profile, 5, 0) == play(profile, 5).simulation.digest()


def test_a_replay_prints_the_trace_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calm", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "every promise held"
    assert any(" gave " in line for line in lines)
    assert main(["calm", "1", "--defect", "give_a_fence_twice"]) == 1
    assert "was given after" in capsys.readouterr().out.splitlines()[-1]


def test_plays_of_several_threads_do_not_meet() -> None:
    """A lab that is played by threads of one program, as a server of it may: the same traces."""
    documents = [lab.load("ghost-writer", fence=fence) for fence in ("guard", "no guard")]
    digests = [lab.play(document).digest for document in documents]
    others: list[tuple[str, str]] = []

    def again() -> None:
        for _ in range(20):
            for document, digest in zip(documents, digests, strict=True):
                if (played := lab.play(document).digest) != digest:
                    others.append((played, digest))

    threads = [threading.Thread(target=again) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # they take turns all the time
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert others == []
    assert gc.isenabled()


def test_a_flaw_that_was_planted_leaves_nothing_behind() -> None:
    document = lab.load("ghost-writer", fence="no guard")
    before = lab.play(document).digest
    message_text.script_names.cache_clear()  # as in a process in which nothing was played yet
    with pytest.raises(ZeroDivisionError), planted("release_without_owner"):
        lab.play(document)
        raise ZeroDivisionError
    assert lab.play(document).digest == before
