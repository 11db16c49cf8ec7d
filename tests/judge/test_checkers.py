"""Each checker rejects the histories that it is there for, and accepts those that look alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.judge import History, Promises, verdict
from fencelock.judge.verdict import RULES
from tests.judge import gathering_histories, histories, recipe_histories
from tests.judge.histories import PROMISES
from tests.judge.telling import Told, acquire, history, release, renew, run, slot

BAD = {**histories.BAD, **recipe_histories.BAD, **gathering_histories.BAD}
GOOD = {**histories.GOOD, **recipe_histories.GOOD, **gathering_histories.GOOD}
TENURE, SLOT, RUN = (
    acquire("ann", 5, 1.0, 1.1),
    slot("ann", 5, 0, 1.0, 1.1),
    run("ann", 4, 1.0, 2.0),
)


@pytest.mark.parametrize("case", BAD)
def test_a_bad_history_is_rejected(case: str) -> None:
    checker, told = BAD[case]
    found = verdict(history(*told), PROMISES).violations
    assert checker in {violation.checker for violation in found}
    assert all(violation.events and violation.message for violation in found)


@pytest.mark.parametrize("case", GOOD)
def test_a_good_history_is_accepted(case: str) -> None:
    found = verdict(history(*GOOD[case]), PROMISES)
    assert found.passed, str(found)
    assert {ruling.outcome for ruling in found.rulings} == {"held"}


def test_every_checker_has_a_history_that_it_rejects() -> None:
    assert {checker for checker, _ in BAD.values()} == {rule.checker.__name__ for rule in RULES}


def test_what_is_not_promised_is_not_judged() -> None:
    nothing = Promises(exclusive=False, fence=False, guarded=False)
    rulings = verdict(history(*BAD["two hold it"][1]), nothing).rulings
    assert {ruling.outcome for ruling in rulings} == {"not judged"}
    assert all(ruling.why for ruling in rulings)


def test_what_does_not_occur_in_a_history_is_not_mentioned() -> None:
    mutexes = {ruling.checker for ruling in verdict(history(TENURE), PROMISES).rulings}
    slots = {ruling.checker for ruling in verdict(history(SLOT), PROMISES).rulings}
    runs = {ruling.checker for ruling in verdict(history(RUN), PROMISES).rulings}
    assert mutexes >= {"one_holder", "fences_grow", "told_in_time"}
    assert slots - mutexes == {"within_limit", "one_per_slot", "slot_fences_grow"}
    assert mutexes - slots == {"one_holder", "linearizable", "fences_grow"}
    assert runs - mutexes == {"once_per_window", "skipped_when_done"}


def test_a_history_of_recipes_is_read_as_it_was_written(tmp_path: Path) -> None:
    told = [event for name in GOOD for event in history(*GOOD[name])]
    History(told).save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl").events == told


def test_a_history_that_was_written_before_there_were_shares_is_that_of_a_mutex(
    tmp_path: Path,
) -> None:
    lines = [
        {"at": 1.0, "client": "ann", "kind": "invoke", "verb": "acquire", "op": 1, "name": "seat"},
        {"at": 1.1, "client": "ann", "kind": "ok", "verb": "acquire", "op": 1, "name": "seat"},
    ]
    old = tmp_path / "history.jsonl"
    old.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (acquired,) = History.load(old).operations()
    assert (acquired.role, acquired.units, acquired.limit, acquired.slot) == ("", 1, 1, None)


spans = st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.01, 1.0)), min_size=1, max_size=12)


@st.composite
def orderly(draw: st.DrawFn) -> History:
    """Tenures one after the other, by clients that asked at any time before and renewed."""
    now, told = 100.0, list[Told]()
    for fence, (hold, gap) in enumerate(draw(spans), start=1):
        client = draw(st.sampled_from(["ann", "bob", "cyd"]))
        asked = now - draw(st.floats(0.0, 0.4))
        told.append(acquire(f"{client}-{fence}", fence, asked, now))
        if draw(st.booleans()):
            told.append(renew(f"{client}-{fence}", fence, now + hold / 4, now + hold / 2))
        answer = now + hold + draw(st.floats(0.0, gap))
        told.append(release(f"{client}-{fence}", fence, now + hold, answer))
        now += hold + gap
    return history(*told)


@given(orderly())
def test_orderly_histories_are_accepted(orderly: History) -> None:
    assert verdict(orderly, PROMISES).violations == []


@given(orderly(), st.data())
def test_a_second_holder_is_found_wherever_it_comes(orderly: History, data: st.DataObject) -> None:
    first = data.draw(st.sampled_from(orderly.operations("acquire")))
    left = next(one for one in orderly.operations("release") if one.client == first.client)
    middle = (first.end + left.begin) / 2
    intruder = acquire("dan", first.fence + 1000, middle - 1e-4, middle)
    worse = history(orderly.events, intruder)
    verdicts = verdict(worse, PROMISES._replace(slack=0.0))
    found = {violation.checker for violation in verdicts.violations}
    assert {"one_holder", "linearizable"} <= found
