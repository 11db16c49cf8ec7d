"""Semaphores, read/write locks, elections, once-per-window, several locks at once, barriers and
latches on a simulated network: every promise holds in every climate, and every mistake that is
planted is found by the checker that is there for it."""

from __future__ import annotations

import pytest

from fencelock.judge import History
from tests.sim.backends import SHARED
from tests.sim.flaws import planting
from tests.sim.harness import Run
from tests.sim.plan import CLIMATES, RECIPES, draw_plan
from tests.sim.recipe_flaws import RECIPE_FLAWS
from tests.sim.runs import Broken, examine, faults, main

SEEDS, MANY_SEEDS = range(2), range(2, 14)


@pytest.mark.parametrize("recipe", RECIPES[1:])
@pytest.mark.parametrize("backend", SHARED)
def test_every_promise_of_a_recipe_holds(backend: str, recipe: str) -> None:
    for climate in CLIMATES:
        for seed in SEEDS:
            examine(backend, climate, seed, recipe=recipe)


def test_several_locks_hold_every_promise_over_redlock() -> None:
    """Which has no memory, and so neither barriers nor latches."""
    for climate in CLIMATES:
        examine("redlock", climate, 0, recipe="several")


@pytest.mark.parametrize("climate", CLIMATES)
@pytest.mark.parametrize("recipe", RECIPES[1:])
@pytest.mark.parametrize("backend", SHARED)
def test_every_promise_of_a_recipe_holds_for_many_seeds(
    backend: str, recipe: str, climate: str
) -> None:
    runs = [examine(backend, climate, seed, recipe=recipe) for seed in MANY_SEEDS]
    grants = sum(run.grants for run in runs)
    if recipe != "latch":
        assert grants > 3 * len(runs), "a run in which nothing happens shows nothing"


@pytest.mark.parametrize("name", RECIPE_FLAWS)
def test_a_planted_flaw_of_a_recipe_is_found(name: str) -> None:
    """And the very run in which it is found is clean without it."""
    flaw, said = RECIPE_FLAWS[name], set[str]()
    for seed in range(flaw.seeds):
        plan = draw_plan(flaw.climate, seed, flaw.recipe)
        with planting(flaw):
            said |= faults(flaw.backend, plan)
        if said & flaw.says:
            assert faults(flaw.backend, plan) == set()
            return
    pytest.fail(f"the judge said {said or 'nothing'} in {flaw.seeds} seeds, and not {flaw.says}")


FOUND = {
    "barrier": [("store", "slow", 4), ("redis", "slow", 6), ("store", "frozen", 0)],
    "latch": [("store", "cuts", 0), ("redis", "frozen", 0)],
    "several": [("redis", "freezes", 1), ("redis", "slow", 9), ("store", "slow", 5)],
}
"""Seeds of calls that outlasted their deadline by more than a second."""


@pytest.mark.parametrize("recipe", FOUND)
def test_a_seed_that_broke_a_promise_of_a_recipe_holds_it_now(recipe: str) -> None:
    for backend, climate, seed in FOUND[recipe]:
        examine(backend, climate, seed, recipe=recipe)


@pytest.mark.parametrize("name", ["free_what_expired_twice", "number_slots_by_holders"])
def test_the_observer_sees_what_is_given_away_beside_what_others_believe_in(name: str) -> None:
    """In the servers' own records, before any client knows."""
    flaw = RECIPE_FLAWS[name]
    plans = [draw_plan(flaw.climate, seed, flaw.recipe) for seed in range(flaw.seeds)]
    with planting(flaw):
        assert any("believed" in faults(flaw.backend, plan) for plan in plans)


def test_every_checker_of_a_recipe_has_a_flaw_that_it_finds() -> None:
    named = {checker for flaw in RECIPE_FLAWS.values() for checker in flaw.says}
    assert named == {
        "all_have_come",
        "all_or_none",
        "counts_are_kept",
        "ends_in_time",
        "first_come_first_served",
        "no_deadlock",
        "no_false_word",
        "no_reader_beside_writer",
        "none_left_at_a_barrier",
        "none_left_at_a_latch",
        "once_per_window",
        "one_leader",
        "one_per_slot",
        "skipped_when_done",
        "slot_fences_grow",
        "within_limit",
    }


@pytest.mark.parametrize("backend", SHARED)
def test_what_makes_a_recipe_does_happen(backend: str) -> None:
    """Slots are held together, writers are downgraded, leaders are seen and windows are skipped."""
    happened: set[str] = set()
    for seed in range(5):
        for recipe in RECIPES[1:]:
            happened |= _happened(Run(backend, draw_plan("calm", seed, recipe)).play().history)
    assert happened >= {
        "ok acquire semaphore",
        "slot 0",
        "slot 1",
        "ok acquire read",
        "ok acquire write",
        "ok downgrade write",
        "ok acquire leader",
        "ok look leader",
        "an epoch is seen",
        "ok run ",
        "fail run ",
        "skipped",
        "it raised",
        "it needs all",
        "ok meet semaphore",
        "fail meet semaphore",
        "ok count ",
        "ok await ",
        "fail await ",
    }


def _happened(history: History) -> set[str]:
    found: set[str] = set()
    for one in history.operations():
        found |= {f"{one.outcome} {one.verb} {one.role}", one.detail, f"slot {one.slot}"}
        if one.verb == "look" and one.fence:
            found.add("an epoch is seen")
    return found


@pytest.mark.parametrize("recipe", RECIPES[1:])
@pytest.mark.parametrize("backend", SHARED)
def test_the_same_seed_gives_the_same_history_of_a_recipe(backend: str, recipe: str) -> None:
    first, again = (Run(backend, draw_plan("storm", 1, recipe)).play() for _ in range(2))
    assert first.history.events == again.history.events
    assert first.simulation.digest() == again.simulation.digest()


def test_a_failure_of_a_recipe_says_how_to_play_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flaw = RECIPE_FLAWS["take_a_writer_for_a_reader"]
    with planting(flaw), pytest.raises(Broken) as caught:
        examine(flaw.backend, flaw.climate, 0, recipe=flaw.recipe)
    *_, replay = str(caught.value).splitlines()
    words = replay.split()[5:]
    assert words[:5] == [flaw.backend, flaw.climate, "0", "--recipe", flaw.recipe]
    assert main(words) == 0
    assert main([*words, "--defect", "take_a_writer_for_a_reader"]) == 1
    assert "! no_reader_beside_writer" in capsys.readouterr().out
