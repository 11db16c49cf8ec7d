"""Decisions over answers: pure, so every order of every outcome is tried."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock import OutcomeUnknown, Unavailable
from fencelock.engines.redlock.fanout import Broadcast
from fencelock.engines.redlock.quorum import (
    Ballot,
    Election,
    NodeView,
    Refusal,
    Renewal,
    free_in,
    holder_of,
    is_held,
    majority,
    middle,
)
from fencelock.engines.redlock.votes import too_few

DOWN, LOST = Unavailable("down"), OutcomeUnknown("lost")


def grant(fence: int, ours: int = 1) -> list[Any]:
    return [1, str(fence).encode(), ours, b"0"]


REFUSED: list[Any] = [0, 1000, b"other", b""]


def elect(nodes: int, answers: Sequence[object]) -> tuple[Election, int]:
    """Cast answers until it is settled, and say how many that took."""
    election = Election(nodes)
    for number, answer in enumerate(answers, 1):
        if election.count_vote(answer):
            return election, number
    return election, len(answers) + 1


@pytest.mark.parametrize(("nodes", "need"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_any_two_majorities_share_a_node(nodes: int, need: int) -> None:
    assert majority(nodes) == need
    for one, other in itertools.product(itertools.combinations(range(nodes), need), repeat=2):
        assert {*one} & {*other}


@given(st.permutations([True] * 3 + [False] * 2 + [None] * 2), st.integers(1, 7))
def test_a_ballot_settles_once_and_for_all(answers: list[bool | None], count: int) -> None:
    """What is settled early is what all answers would say, and no sooner than it is certain."""
    nodes = len(answers[:count])
    votes = [DOWN if answer is None else answer for answer in answers[:count]]
    whole = Ballot(nodes, bool)
    for answer in votes:
        whole.count_vote(answer)
    early = Ballot(nodes, bool)
    for number, answer in enumerate(votes, 1):
        if early.count_vote(answer):
            assert early.outcome == whole.outcome
            return
        assert number < nodes, "when all have answered it is settled"


@given(st.permutations([grant(7), grant(7), grant(7), REFUSED, REFUSED]))
def test_a_majority_of_grants_is_a_grant_in_any_order(answers: list[Any]) -> None:
    election, _ = elect(5, answers)
    assert election.fence == 7


@given(
    st.lists(st.sampled_from([grant(7), grant(9, 0), REFUSED, DOWN, LOST, None]), min_size=5),
    st.sampled_from([3, 4, 5]),
)
def test_no_fence_is_handed_out_that_no_majority_has_on_record(
    answers: list[Any], nodes: int
) -> None:
    election, _ = elect(nodes, answers[:nodes])
    if election.fence is not None:
        assert answers[:nodes].count(grant(7)) >= majority(nodes)
    if election.impossible:
        refused = sum(answer is REFUSED or answer is DOWN for answer in answers[:nodes])
        assert refused > nodes - majority(nodes)


def test_nobody_waits_for_a_minority() -> None:
    assert elect(5, [grant(7)] * 3)[1] == 3
    assert elect(5, [REFUSED] * 3)[1] == 3
    assert elect(5, [DOWN] * 3)[1] == 3
    assert elect(5, [grant(7), grant(9, 0), grant(7)])[1] == 3


def test_whether_it_is_held_by_another_is_waited_for() -> None:
    """One is down and one refuses: the third says whether that is a no or too few answers."""
    assert elect(3, [DOWN, REFUSED, grant(7)])[1] == 3
    assert elect(3, [DOWN, REFUSED, REFUSED])[0].impossible


def test_a_fence_of_an_earlier_attempt_is_found_again() -> None:
    """Asked again, nodes answer with what they have on record for us, and a majority agrees."""
    assert elect(3, [grant(8), grant(7), grant(7)])[0].fence == 7
    assert elect(3, [grant(7), grant(8), grant(9)])[0].fence is None


def test_a_batch_is_renewed_lease_by_lease() -> None:
    renewal = Renewal(3, 4)
    assert not renewal.count_vote([1, b"", 2, b"maintenance"])
    assert not renewal.count_vote([2, b"", 3, b""])
    assert [renewal.outcome(number) for number in range(4)] == [True, None, False, None]
    assert renewal.count_vote([1, b"", 3, b""])
    assert [renewal.outcome(number) for number in range(4)] == [True, False, False, False]
    assert renewal.reasons == {2: "maintenance"}


def test_a_batch_of_which_nothing_is_gone_needs_a_majority_only() -> None:
    renewal, nothing = Renewal(5, 2), list[Any]()
    answers = [nothing, DOWN, nothing, nothing]
    assert [renewal.count_vote(answer) for answer in answers] == [False, False, False, True]


def test_a_holder_has_a_majority_or_may_have_one() -> None:
    ours, theirs = (NodeView(value, 5.0, "", 0) for value in (b"a", b"b"))
    nobody = NodeView(b"", 0.0, "", 0)
    assert holder_of([nobody, nobody], 1, 2) is None
    assert holder_of([ours, theirs, nobody], 0, 2) is None
    assert holder_of([ours, nobody], 1, 2) is not None
    found = holder_of([ours, theirs, ours._replace(left=3.0)], 0, 2)
    assert found is not None
    assert (found.value, found.remaining) == (b"a", 3.0)


def test_a_split_vote_is_told_from_a_held_lock() -> None:
    one, two = Refusal(5.0, b"a", ""), Refusal(3.0, b"b", "")
    assert not is_held([one, two], 0, 2)
    assert is_held([one, one], 0, 2)
    assert is_held([one], 1, 2)
    assert not is_held([], 3, 2)
    assert free_in([one, two], 1) == 3.0
    assert free_in([one, two], 2) == 5.0


def test_the_middle_clock_is_taken() -> None:
    assert middle([5, 1, 9]) == 5
    assert middle([5, 9]) == 5


@pytest.mark.parametrize(
    ("answered", "words"),
    [
        (2, r"2 of 5 nodes answered and 3 are needed; "),
        (3, r"3 of 5 nodes answered, some of them too late; "),
    ],
)
def test_an_error_does_not_ask_for_what_it_has(answered: int, words: str) -> None:
    """An answer that comes after the decision is on record when the error is written."""
    sent = Broadcast(5, b"PING", lambda answer: False)
    sent.answers[:answered] = [1] * answered
    assert str(too_few(sent, 3, "nothing is held", happened=False)).startswith(words)
