"""Every scenario comes out as it says, in every combination of its switches."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import lab

CASES = [
    pytest.param(name, switches, id=", ".join([name, *switches.values()]))
    for name in lab.scenarios()
    for switches in lab.combinations(lab.scenario(name))
]
BYSTANDERS = {
    "Asleep": {"client": "fencelock", "script": ["at 599", "acquire seat ttl 10"]},
    "Busy": {"client": "none", "script": ["work 0.017", "again"]},
}
MEETS = {("zookeeper", "Asleep")}
"""Who meets the others at a server, although it does nothing yet."""


@pytest.mark.parametrize(("name", "switches"), CASES)
def test_a_scenario_comes_out_as_expected(name: str, switches: dict[str, str]) -> None:
    document = lab.load(name, **switches)
    trace = lab.play(document)
    assert document["expect"]["played"], "a scenario says what comes out"
    assert trace.differences() == []
    said = [step["say"] for step in trace.data["steps"]]
    assert not [one for one in said if "{" in one or "none" in one], "a fence that nobody had"


@pytest.mark.parametrize("name", lab.scenarios())
def test_a_scenario_says_what_comes_out_in_each_combination_and_no_other(name: str) -> None:
    raw = lab.scenario(name)
    keys = {", ".join(one.values()) or "played" for one in lab.combinations(raw)}
    assert set(raw["expect"]) == keys
    assert all("broken" in expected for expected in raw["expect"].values())


def test_the_scenarios_are_in_their_order() -> None:
    assert lab.scenarios()[:3] == ["taking-turns", "double-booking", "webhook-twice"]
    assert len(lab.scenarios()) >= 27


@pytest.mark.parametrize("bystander", BYSTANDERS)
@pytest.mark.parametrize("name", lab.scenarios())
def test_a_bystander_changes_nothing(name: str, bystander: str) -> None:
    document = lab.load(name)
    if (document["engine"]["kind"], bystander) in MEETS:
        pytest.skip("a session is a write of the ensemble: whoever begins one is no bystander")
    beside = document | {"actors": {**document["actors"], bystander: BYSTANDERS[bystander]}}
    alone, both = lab.play(document), lab.play(beside)
    assert alone.digest != both.digest
    assert without(both.data, bystander) == without(alone.data, bystander)


def without(data: Any, lane: str) -> dict[str, Any]:
    """A trace without what is about one actor."""
    left = dict(data) | {"digest": ""}
    left["lanes"] = [one for one in data["lanes"] if one["name"] != lane]
    left["states"] = {name: seen for name, seen in data["states"].items() if name != lane}
    left["messages"] = [one for one in data["messages"] if lane not in (one["from"], one["to"])]
    for part in ("spans", "events"):
        left[part] = [one for one in data[part] if one["lane"] != lane]
    return left


# What a trace holds


def test_the_ghost_writer_is_told_in_small_fences_and_words() -> None:
    trace = lab.play(lab.load("ghost-writer"))
    words = [f"{one['lane']} {one['words']}" for one in trace.data["events"]]
    assert "A holds seat with fence 33" in words
    assert "B holds seat with fence 34" in words
    assert "A write Alice: refused, fence 33 is below 34" in words
    assert next(step["say"] for step in trace.data["steps"]) == "A holds the lock, fence 33."
    assert sorted(trace.data["fences"].values()) == [33, 34]


def test_the_spans_of_the_ghost_writer_show_a_wrong_belief_that_nobody_acts_on() -> None:
    spans = lab.play(lab.load("ghost-writer")).data["spans"]
    of_a = {one["kind"]: one for one in spans if one["lane"] == "A"}
    assert of_a["frozen"]["from"] == 1.0
    assert of_a["frozen"]["to"] == 9.0
    wrong = of_a["believes wrongly"]
    assert of_a["frozen"]["from"] < wrong["from"] < wrong["to"] == 9.0
    (held,) = [one for one in spans if one["lane"] == "B" and one["kind"] == "holds"]
    assert wrong["from"] <= held["from"] < held["to"] < wrong["to"]


def test_a_light_is_red_from_the_moment_at_which_it_is_broken() -> None:
    trace = lab.play(lab.load("ghost-writer", fence="no guard"))
    (ruling,) = [one for one in trace.verdict if one["outcome"] == "broken"]
    (violation,) = ruling["violations"]
    assert ruling["checker"] == "no_lost_update"
    assert violation["at"] > 9.0
    assert "B wrote Bob and A wrote Alice, both having read nothing" in violation["words"]


def test_messages_say_what_they_are_and_what_became_of_them() -> None:
    messages = lab.play(lab.load("redlock-clock-jump")).data["messages"]
    seen = {
        (one["from"], one["to"], one["what"].partition(" 17")[0], one["fate"]) for one in messages
    }
    assert ("A", "redis-1", "redlock acquire.lua seat", "arrived") in seen
    assert {one[3] for one in seen if one[:2] == ("A", "redis-4")} == {"held back by a cut"}
    assert all(one["arrived"] is None or one["arrived"] >= one["sent"] for one in messages)


def test_the_states_of_a_server_name_its_holder_its_queue_and_its_clock() -> None:
    states = [state for _, state in lab.play(lab.load("ghost-writer")).data["states"]["redis"]]
    assert next(state["holder"] for state in states if state["holder"]) == "A"
    assert any(state["holder"] == "A" and state["queue"] == ["B"] for state in states)
    stepped = [state for _, state in lab.play(lab.load("clock-step")).data["states"]["redis"]]
    assert {0.0, 2.0} <= {round(state["clock"], 3) for state in stepped}
