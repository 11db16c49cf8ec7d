"""Each checker rejects the histories that it is there for, and accepts those that look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.judge import History, Promises, verdict
from fencelock.judge.verdict import ARTICLES
from tests.judge.histories import BAD, GOOD, PROMISES
from tests.judge.telling import Told, acquire, history, release, renew


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
    assert {checker for checker, _ in BAD.values()} == {
        article.checker.__name__ for article in ARTICLES
    }


def test_what_is_not_promised_is_not_judged() -> None:
    nothing = Promises(exclusive=False, fence=False, guarded=False)
    rulings = verdict(history(*BAD["two hold it"][1]), nothing).rulings
    assert {ruling.outcome for ruling in rulings} == {"not judged"}
    assert all(ruling.why for ruling in rulings)


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
