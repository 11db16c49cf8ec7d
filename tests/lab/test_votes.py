"""Under Redlock the states of a client tell its votes and how long they are valid."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import lab
from fencelock.model import drift

FIVE = [f"redis-{number}" for number in range(1, 6)]


def states(document: dict[str, Any], lane: str) -> list[tuple[float, dict[str, Any]]]:
    return [(at, state) for at, state in lab.play(document).data["states"][lane]]


def alone(script: list[str], client: str = "fencelock", **more: Any) -> dict[str, Any]:
    guard = {"guard": client == "fencelock"}
    facts = {"v": 1, "title": "Votes", "until": 8, "engine": {"kind": "redlock"}}
    return facts | {"actors": {"A": {"client": client, "script": script}}, "resource": guard} | more


def test_votes_come_one_by_one_and_three_of_five_are_enough() -> None:
    seen = states(lab.load("redlock-majority"), "A")
    counts = [len(state["votes"]) for _, state in seen]
    assert {state["needed"] for _, state in seen} == {3}
    assert {0, 1, 2, 3} == set(counts)
    holding = [state for _, state in seen if state["believes"]]
    assert [state["votes"] for state in holding] == [FIVE[:3]] * len(holding)
    assert all(state["valid_until"] is None for _, state in seen if len(state["votes"]) < 3)


def test_votes_that_are_too_few_are_taken_back() -> None:
    seen = states(lab.load("redlock-majority"), "B")
    assert max(len(state["votes"]) for _, state in seen) == 2
    assert seen[-1][1]["votes"] == []
    assert {state["valid_until"] for _, state in seen} == {None}


def test_the_validity_is_what_is_left_of_the_ttl_when_the_votes_are_in() -> None:
    script = ["at 1", "acquire seat ttl 5 renew off", "work 1", "release"]
    seen = states(alone(script), "A")
    asked_at = next(at for at, state in seen if state["line"] == 2)
    (valid_until,) = {state["valid_until"] for _, state in seen} - {None}
    assert valid_until == pytest.approx(asked_at + 5 - drift(5))
    assert [state["valid_until"] for _, state in seen if state["believes"]] == [
        state["believes_until"] for _, state in seen if state["believes"]
    ]
    assert seen[-1][1]["valid_until"] is None


def test_a_renewal_is_voted_on_anew_and_moves_the_validity() -> None:
    script = ["at 1", "acquire seat ttl 3", "work 4", "release"]
    cut = {"kind": "reboot", "whom": "redis-5", "at": 1.5}
    seen = states(alone(script, faults=[cut]), "A")
    assert len({state["valid_until"] for _, state in seen} - {None}) > 2
    late = [state["votes"] for at, state in seen if at > 2.5 and state["believes"]]
    assert FIVE[:4] in late
    assert FIVE not in late


def test_votes_that_came_when_the_ttl_was_over_give_no_validity() -> None:
    """It is frozen while the votes come: what it holds later is of another round."""
    script = ["at 1", "acquire seat ttl 1 timeout 5", "work 0.2", "release"]
    pause = {"kind": "pause", "whom": "A", "at": 1.005, "for": 1.5}
    seen = states(alone(script, faults=[pause]), "A")
    (valid_until,) = {state["valid_until"] for _, state in seen} - {None}
    assert 2.505 + 1 - drift(1) <= valid_until < 2.6 + 1


def test_a_textbook_client_counts_its_votes_too() -> None:
    script = ["at 1", "acquire seat ttl 5", "work 1", "release"]
    seen = states(alone(script, "textbook"), "A")
    assert [len(state["votes"]) for _, state in seen if state["line"] == 2] == [0, 1, 2, 3, 4]
    assert [state["votes"] for _, state in seen if state["line"] == 3] == [FIVE]
    assert {state["needed"] for _, state in seen} == {3}
    assert all((state["valid_until"] is None) != state["believes"] for _, state in seen)
    assert seen[-1][1]["valid_until"] is None


def test_where_nobody_votes_nothing_is_said_of_votes() -> None:
    for _, state in states(lab.load("ghost-writer"), "A"):
        assert not state.keys() & {"votes", "needed", "valid_until"}
