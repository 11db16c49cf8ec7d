"""The unchanged protocol, under every profile and many seeds, before the judge.

A failure names its seed and the command that plays it again.
"""

from __future__ import annotations

import pytest

from tests.sim.defects import DEFECTS, planted
from tests.sim.fault_profiles import FAULT_PROFILES
from tests.sim.judge import Violation
from tests.sim.replay import play

SEEDS, MANY_SEEDS = range(30), range(30, 200)


@pytest.mark.parametrize("profile", FAULT_PROFILES)
def test_every_promise_holds_whatever_the_weather(profile: str) -> None:
    hold_every_promise(profile, SEEDS)


@pytest.mark.parametrize("profile", FAULT_PROFILES)
def test_every_promise_holds_for_many_seeds(profile: str) -> None:
    hold_every_promise(profile, MANY_SEEDS)


def hold_every_promise(profile: str, seeds: range) -> None:
    grants = sum(play(profile, seed).judge.grants for seed in seeds)
    assert grants > 4 * len(seeds), "a run on which nothing happens shows nothing"


@pytest.mark.parametrize("profile", ["pauses", "revokes", "slow", "storm"])
def test_bad_weather_is_felt(profile: str) -> None:
    assert sum(play(profile, seed).judge.losses for seed in range(20)) > 5


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str) -> None:
    defect = DEFECTS[name]
    verdicts = []
    with planted(name):
        for seed in range(defect.seeds):
            try:
                play(defect.profile, seed)
            except Exception as error:
                verdicts.append(f"seed {seed}: {error!r}")
                if isinstance(error, Violation) and defect.says in str(error):
                    return
    pytest.fail(f"the judge never said {defect.says!r}, but {verdicts}")


def test_a_failure_says_how_to_play_it_again() -> None:
    with planted("give_a_fence_twice"), pytest.raises(Violation) as caught:
        play("calm", 7)
    assert "replay: PYTHONPATH=src python -m tests.sim.replay calm 7" in caught.value.__notes__
