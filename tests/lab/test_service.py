"""A document over the lock service: its nodes, its messages in words, and its faults."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from fencelock import lab
from fencelock.errors import UsageError
from fencelock.lab import Trace

A = ["at 0.5", "acquire seat ttl 5", "read", "work 2", "append Alice", "release"]
B = ["at 0.8", "acquire seat ttl 5", "read", "work 0.5", "append Bob", "release"]


def document(*faults: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "v": 1,
        "title": "Nodes",
        "until": 20,
        "engine": {"kind": "service"},
        "actors": {"A": {"script": A}, "B": {"script": B}},
        "faults": list(faults),
    } | more


def states(trace: Trace, lane: str) -> list[dict[str, Any]]:
    return [state for _, state in trace.data["states"][lane]]


def said(trace: Trace, source: str, target: str) -> list[str]:
    messages = trace.data["messages"]
    return [one["what"] for one in messages if (one["from"], one["to"]) == (source, target)]


def test_the_store_keeps_the_lock_and_nodes_only_pass_calls_on() -> None:
    trace = lab.play(document())
    servers = [one for one in trace.data["lanes"] if one["kind"] == "server"]
    assert [one["name"] for one in servers] == ["store", "node-1", "node-2"]
    assert [one.get("keeps", True) for one in servers] == [True, False, False]
    held = [(one["holder"], one["queue"]) for one in states(trace, "store")]
    turns = [one for one, _ in groupby(held)]
    assert turns[1:-1] == [("A", []), ("A", ["B"]), ("B", ["B"]), ("B", [])]
    assert turns[0] == turns[-1] == (None, [])
    assert {one["holder"] for one in states(trace, "node-1") + states(trace, "node-2")} == {None}
    assert not [one for one in trace.data["spans"] if one["kind"] == "believes wrongly"]


def test_clients_take_turns_at_the_nodes_and_wait_in_a_poll() -> None:
    trace = lab.play(document())
    assert said(trace, "A", "node-2") == []
    asked = [one for one in said(trace, "A", "node-1") if one != "connect"]
    assert asked == ["about", "acquire seat", "renew seat", "release seat"]
    assert said(trace, "node-1", "A")[:3] == ["connected", "done", "granted"]
    assert said(trace, "B", "node-2")[:3] == ["connect", "about", "acquire seat"]
    assert "wait seat" in said(trace, "B", "node-2")
    assert said(trace, "node-2", "B")[2:5] == ["queued", "connected", "granted"]
    assert "acquire" in said(trace, "node-2", "store")
    calls = [one["calls"] for one in states(trace, "node-2")]
    assert calls == [[], ["B"], [], ["B"], []]


def test_a_problem_is_told_by_its_title() -> None:
    now = ["at 1", "acquire seat timeout 0", "release"]
    trace = lab.play(document(actors={"A": {"script": A}, "B": {"script": now}}))
    assert [one for one in said(trace, "node-2", "B") if one.startswith("409 ")]


def test_a_client_that_is_killed_in_its_poll_is_passed_over() -> None:
    trace = lab.play(lab.load("service", **{"what happens": "a client vanishes"}))
    held = [one for one, _ in groupby(one["holder"] for one in states(trace, "store"))]
    assert held == [None, "A", "B", "C", None]  # it is offered to B, who does not come for it
    waited = [one["calls"] for one in states(trace, "node-2")]
    assert waited == [[], ["B"], [], ["B"], []]


@pytest.mark.parametrize("kind", ["freeze", "reboot"])
def test_a_node_that_is_frozen_or_gone_costs_nobody_its_lock(kind: str) -> None:
    fault = {"kind": kind, "whom": "node-1", "at": 1.0, "for": 5.0}
    trace = lab.play(document(fault))
    assert trace.outcome["register"] == "Alice Bob"
    assert trace.outcome["broken"] == []
    up = [one["up"] and not one["frozen"] for one in states(trace, "node-1")]
    assert up[0]
    assert up[-1]
    assert not all(up)
    moved = said(trace, "A", "node-2")
    assert ("release seat" in moved) == (kind == "reboot")  # of the other it waits for an answer


def test_a_node_that_is_cut_off_from_the_store_grants_nothing() -> None:
    cut = {"kind": "cut", "from": "node-2", "to": "store", "at": 0.1}
    late = {"script": ["at 12", "acquire seat ttl 5", "append Alice", "release"]}
    wants = ["at 0.8", "acquire seat ttl 5 timeout 8", "append Bob", "release"]
    actors = {"A": late, "B": {"script": wants}}
    trace = lab.play(document(cut, actors=actors))
    assert trace.outcome["granted"] == ["B", "A"]
    assert said(trace, "B", "node-1")[-1] == "release seat"
    cut["from"] = ["node-1", "node-2"]
    trace = lab.play(document(cut, actors={"B": {"script": wants}}))
    assert trace.outcome["granted"] == []
    assert trace.outcome["stopped"] == ["B"]


def test_a_store_that_forgets_breaks_what_it_promised() -> None:
    slow = ["at 0.5", "acquire seat ttl 9 renew off", "read", "work 6", "append Alice", "release"]
    actors = {"A": {"script": slow}, "B": {"script": B}}
    trace = lab.play(
        document({"kind": "amnesia", "whom": "store", "at": 1.0, "for": 0.5}, actors=actors)
    )
    assert trace.outcome["broken"] == ["one_holder"]
    assert (trace.outcome["register"], trace.outcome["refused"]) == ("Bob", 1)


def test_a_token_of_the_environment_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lab.play(document()).digest
    monkeypatch.setenv("FENCELOCK_TOKEN", "no token at all")
    assert lab.play(document()).digest == expected


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"kind": "amnesia", "whom": "node-1", "at": 1}, "a node remembers nothing anyway"),
        ({"kind": "pace", "whom": "store", "by": 0.9, "at": 1}, "no lease ends by the clock"),
        ({"kind": "freeze", "whom": "node-3", "at": 1}, "there is no 'node-3', but store, node-1"),
    ],
)
def test_what_the_service_cannot_play_is_refused_in_words(fault: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        lab.play(document(fault))
