"""Each checker rejects the histories that it is there for, and accepts those that look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.judge import History, Promises, verdict
from fencelock.judge.verdict import ARTICLES
from tests.judge.telling import Told, acquire, history, note, read, release, renew, write

PROMISES = Promises(
    ttl=2.0, slack=0.01, fifo=True, told_within=0.5, woken_within=1.0, freed_within=1.0
)

TENURE = [*acquire("ann", 5, 1.0, 1.1), *release("ann", 5, 2.0, 2.1)]
NEXT = [*acquire("bob", 7, 2.2, 2.3), *release("bob", 7, 3.0, 3.1)]
ANN_HOLDS = acquire("ann", 5, 1.0, 1.1)
ANN_WAKES = [*note("ann", "pause", 1.2), *note("ann", "resume", 6.0)]

BAD: dict[str, tuple[str, list[Told]]] = {
    "two hold it": ("one_holder", [ANN_HOLDS, acquire("bob", 7, 1.2, 1.3)]),
    "two hold it, without fences": (
        "one_holder",
        [acquire("ann", 0, 1.0, 1.1), acquire("bob", 0, 1.2, 1.3), release("bob", 0, 2.0, 2.1)],
    ),
    "one wakes up and is not told": (
        "one_holder",
        [ANN_HOLDS, ANN_WAKES, acquire("bob", 7, 4.0, 4.1), release("bob", 7, 9.0, 9.1)],
    ),
    "one order does not explain it": (
        "linearizable",
        [ANN_HOLDS, acquire("bob", 7, 1.2, 1.3), release("ann", 5, 1.4, 1.5)],
    ),
    "a renewal after another was granted": (
        "linearizable",
        [
            ANN_HOLDS,
            note("ann", "pause", 1.2),
            note("ann", "resume", 5.0),
            acquire("bob", 7, 4.0, 4.1),
            renew("ann", 5, 5.0, 5.1),
            release("bob", 7, 6.0, 6.1),
        ],
    ),
    "it was released twice": ("linearizable", [TENURE, release("ann", 5, 2.2, 2.3)]),
    "a fence goes back": ("fences_grow", [TENURE, acquire("bob", 4, 2.2, 2.3)]),
    "a fence is given twice": ("fences_grow", [TENURE, acquire("bob", 5, 2.2, 2.3)]),
    "there is no fence": ("fences_grow", [acquire("ann", 0, 1.0, 1.1)]),
    "a waiter's fence goes back": (
        "fences_grow",
        [acquire("bob", 4, 0.5, 2.3), TENURE],
    ),
    "two write upon the same value": (
        "no_lost_update",
        [
            read("ann", 5, 1.2, 1.3, 10),
            read("bob", 7, 2.2, 2.3, 10),
            write("bob", 7, 2.4, 2.5, 11),
            write("ann", 5, 2.6, 2.7, 12),
        ],
    ),
    "an acknowledged write is not read": (
        "no_lost_update",
        [
            write("ann", 5, 1.2, 1.3, 10),
            write("bob", 7, 1.4, 1.5, 11),
            read("cyd", 8, 2.0, 2.1, 10),
        ],
    ),
    "an old fence writes": (
        "nothing_stale",
        [write("bob", 7, 1.0, 1.1, 10), write("ann", 5, 1.2, 1.3, 11)],
    ),
    "an old fence writes after a read": (
        "nothing_stale",
        [read("bob", 7, 1.0, 1.1, 10), write("ann", 5, 1.2, 1.3, 11)],
    ),
    "an old fence reads": (
        "nothing_stale",
        [write("bob", 7, 1.0, 1.1, 10), read("ann", 5, 1.2, 1.3, 10)],
    ),
    "a holder is never told": (
        "told_in_time",
        [ANN_HOLDS, note("engine", "expired", 3.0, fence=5), note("bob", "told", 9.0)],
    ),
    "a holder is told late": (
        "told_in_time",
        [
            ANN_HOLDS,
            ANN_WAKES,
            acquire("bob", 7, 4.0, 4.1),
            note("ann", "told", 6.9, fence=5),
            release("bob", 7, 8.0, 8.1),
        ],
    ),
    "a holder is told late, without its pause": (
        "told_in_time",
        [
            ANN_HOLDS,
            note("engine", "expired", 3.0, fence=5),
            note("ann", "pause", 3.1),
            note("ann", "resume", 6.0),
            note("ann", "told", 6.5, fence=5),
        ],
    ),
    "a waiter sleeps beside a free lock": (
        "nobody_sleeps",
        [TENURE, acquire("bob", 7, 1.5, 4.0)],
    ),
    "two waiters sleep beside a free lock": (
        "nobody_sleeps",
        [TENURE, acquire("bob", 7, 1.5, None), acquire("cyd", 8, 1.6, 4.0)],
    ),
    "a waiter sleeps beside a dead holder": (
        "nobody_sleeps",
        [ANN_HOLDS, note("ann", "crash", 1.5), acquire("bob", 7, 1.5, 5.0)],
    ),
    "a waiter that was paused sleeps long after it": (
        "nobody_sleeps",
        [
            TENURE,
            acquire("bob", 7, 1.5, 20.0),
            note("bob", "pause", 1.6),
            note("bob", "resume", 3.0),
        ],
    ),
    "a newcomer overtakes": (
        "first_come_first_served",
        [
            TENURE,
            acquire("bob", 8, 1.5, 4.0),
            note("bob", "queued", 1.6),
            acquire("cyd", 7, 1.7, 2.5),
        ],
    ),
    "a lock is left behind": (
        "no_orphan",
        [TENURE, acquire("bob", 0, 4.0, 4.1, "fail")],
    ),
    "a cancelled attempt leaves its lock": (
        "no_orphan",
        [acquire("ann", 0, 1.0, 1.1, "fail"), acquire("bob", 0, 4.0, 4.1, "fail")],
    ),
    "the ttl of the dead is over": (
        "no_orphan",
        [ANN_HOLDS, note("ann", "crash", 1.5), acquire("bob", 0, 5.0, 5.1, "fail")],
    ),
}

GOOD: dict[str, list[Told]] = {
    "nothing": [],
    "one after the other": [TENURE, NEXT],
    "a waiter is served at once": [TENURE, acquire("bob", 7, 1.5, 2.15)],
    "a release that is answered late": [
        acquire("ann", 5, 1.0, 1.1),
        release("ann", 5, 2.0, 2.9),
        acquire("bob", 7, 1.5, 2.2),
        release("bob", 7, 3.0, 3.1),
    ],
    "a paused holder is told when it wakes up": [
        ANN_HOLDS,
        ANN_WAKES,
        acquire("bob", 7, 1.5, 4.0),
        note("ann", "told", 6.005, fence=5),
        release("ann", 5, 6.1, 6.2, "fail"),
        release("bob", 7, 8.0, 8.1),
    ],
    "a holder is paused before it could be told": [
        ANN_HOLDS,
        note("engine", "expired", 3.0, fence=5),
        note("ann", "pause", 3.1),
        note("ann", "resume", 6.0),
        note("ann", "told", 6.3, fence=5),
    ],
    "a dead holder's lease ends": [
        ANN_HOLDS,
        note("ann", "crash", 1.5),
        acquire("bob", 7, 1.6, 3.6),
    ],
    "an unknown acquire held it for a while": [
        acquire("ann", 0, 1.0, 1.1, "unknown"),
        acquire("bob", 7, 1.2, 3.0),
        release("bob", 7, 3.5, 3.6),
    ],
    "an unknown release happens late": [
        ANN_HOLDS,
        release("ann", 5, 2.0, 2.1, "unknown"),
        acquire("bob", 7, 2.2, 3.9),
        release("bob", 7, 5.0, 5.1),
    ],
    "a revoked holder": [
        ANN_HOLDS,
        note("nemesis", "expired", 1.5, fence=5),
        acquire("bob", 7, 1.2, 1.6),
        note("ann", "told", 1.605, fence=5),
        release("bob", 7, 2.0, 2.1),
    ],
    "the guard refuses the old fence": [
        read("ann", 5, 1.2, 1.3, 10),
        read("bob", 7, 2.2, 2.3, 10),
        write("bob", 7, 2.4, 2.5, 11),
        write("ann", 5, 2.6, 2.7, 12, "fail"),
        read("cyd", 8, 3.0, 3.1, 11),
    ],
    "an unknown write is read later": [
        write("ann", 5, 1.0, 1.1, 10),
        write("ann", 5, 1.2, 1.3, 11, "unknown"),
        read("bob", 7, 2.0, 2.1, 10),
        read("bob", 7, 2.2, 2.3, 11),
    ],
    "one tenure writes twice": [
        read("ann", 5, 1.0, 1.1, 10),
        write("ann", 5, 1.2, 1.3, 11),
        write("ann", 5, 1.4, 1.5, 12),
        read("bob", 7, 2.0, 2.1, 12),
        write("bob", 7, 2.2, 2.3, 13),
    ],
    "a waiter that was paused is overtaken": [
        TENURE,
        acquire("bob", 8, 1.5, 4.0),
        note("bob", "queued", 1.6),
        note("bob", "pause", 1.65),
        note("bob", "resume", 3.5),
        acquire("cyd", 7, 1.7, 2.5),
        release("cyd", 7, 2.6, 2.7),
    ],
    "the engine was away": [
        TENURE,
        note("node", "crash", 1.4),
        note("node", "restart", 3.9),
        acquire("bob", 7, 1.5, 4.0),
    ],
    "the lock is held": [
        ANN_HOLDS,
        acquire("bob", 0, 5.0, 5.1, "fail"),
        release("ann", 5, 6.0, 6.1),
    ],
    "somebody just had it": [TENURE, acquire("bob", 0, 2.5, 2.6, "fail")],
}


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
