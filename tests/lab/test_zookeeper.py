"""A document over a ZooKeeper ensemble: its lanes, its messages in words, and its faults."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import lab
from fencelock.errors import UsageError
from fencelock.lab import Trace

A = ["at 0.5", "acquire seat ttl 5", "read", "work 1", "append Alice", "release"]
B = ["at 0.8", "acquire seat ttl 5", "read", "work 0.5", "append Bob", "release"]
MEMBERS = ["zookeeper-1", "zookeeper-2", "zookeeper-3"]
LEADER = MEMBERS[-1]


def document(*faults: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "v": 1,
        "title": "Members",
        "until": 20,
        "engine": {"kind": "zookeeper", "session": 4},
        "actors": {"A": {"script": A}, "B": {"script": B}},
        "faults": list(faults),
    } | more


def states(trace: Trace, lane: str) -> list[dict[str, Any]]:
    return [state for _, state in trace.data["states"][lane]]


def moments(trace: Trace) -> dict[tuple[str, str], float]:
    return {(one["lane"], one["kind"]): one["at"] for one in trace.data["events"]}


def said(trace: Trace, source: str = "", target: str = "") -> list[str]:
    return [
        one["what"]
        for one in trace.data["messages"]
        if source in ("", one["from"]) and target in ("", one["to"])
    ]


def test_members_tell_who_holds_the_lock_who_waits_and_who_leads() -> None:
    trace = lab.play(document())
    assert [one["name"] for one in trace.data["lanes"] if one["kind"] == "server"] == MEMBERS
    for member in MEMBERS:
        seen = states(trace, member)
        assert {one["leader"] for one in seen} == {LEADER}
        assert {one["role"] for one in seen} == {"leading" if member == LEADER else "following"}
        held = [(one["holder"], one["queue"]) for one in seen]
        order = [(None, []), ("A", []), ("A", ["B"]), ("B", []), (None, [])]
        assert list(dict.fromkeys(map(str, held))) == list(dict.fromkeys(map(str, order)))


def test_the_leader_knows_when_the_session_of_the_holder_ends_and_followers_do_not() -> None:
    trace = lab.play(document({"kind": "crash", "whom": "A", "at": 1.0}))
    until = [one["until"] for one in states(trace, LEADER) if one["holder"] == "A"]
    assert None not in until
    ended = moments(trace)[LEADER, "session ended"]
    assert until[-1] <= ended < until[-1] + 0.5
    assert all("until" not in one for one in states(trace, MEMBERS[0])), "it does not know"
    words = [one["words"] for one in trace.data["events"] if one["kind"] == "session ended"]
    assert words == ["the session of A has ended"]
    assert trace.outcome["granted"] == ["A", "B"]


def test_messages_are_told_in_words_with_the_names_of_actors() -> None:
    trace = lab.play(document())
    of_b = said(trace, source="B")
    assert of_b[:2] == ["connect", "begin a session of 4 s"]
    assert "create seat/B__lock__; list seat" in of_b
    assert "watch seat/A__lock__0000000000" in of_b
    assert "delete seat/B__lock__0000000001" in " ".join(of_b)
    to_b = said(trace, target="B")
    assert "a session of 4 s" in to_b
    assert "created seat/B__lock__0000000001" in to_b
    assert "children: A__lock__0000000000, B__lock__0000000001" in to_b
    assert "watch fires: seat/A__lock__0000000000 is gone" in to_b
    assert "propose: create seat/B__lock__" in said(trace, source=LEADER)
    assert trace.outcome["woken"] == ["B"]


def test_what_members_say_at_each_tick_is_left_out() -> None:
    trace = lab.play(document(actors={"A": {"script": ["at 19", *A[1:]]}}))
    between = [one for one in trace.data["messages"] if {one["from"], one["to"]} <= set(MEMBERS)]
    quiet = [one for one in between if 3 < one["sent"] < 18]
    assert {one["what"] for one in quiet} <= {"has heard of 1 session"}


def test_a_new_leader_is_seen_when_the_first_one_is_frozen_or_gone() -> None:
    for kind in ("freeze", "reboot"):
        trace = lab.play(document({"kind": kind, "whom": LEADER, "at": 1.0, "for": 8.0}))
        seen = states(trace, MEMBERS[0])
        assert [one["role"] for one in seen if one["role"] == "looking"], kind
        assert seen[-1]["leader"] == MEMBERS[1]
        assert states(trace, LEADER)[-1]["role"] == "following"
        assert trace.outcome["register"] in ("Alice Bob", "Bob")
        assert trace.outcome["broken"] == []


def test_a_member_without_a_majority_serves_nobody() -> None:
    cut = {"kind": "cut", "from": MEMBERS[0], "to": MEMBERS[1:], "at": 1.0, "for": 5.0}
    trace = lab.play(document(cut))
    assert "looking" in [one["role"] for one in states(trace, MEMBERS[0])]
    assert states(trace, MEMBERS[0])[-1]["leader"] == LEADER
    assert "looks for a leader" in said(trace, source=MEMBERS[0])
    assert trace.outcome["register"] == "Alice Bob"
    assert trace.outcome["broken"] == []


def test_a_member_that_nothing_reaches_is_seen_to_look_for_a_leader() -> None:
    cut = {"kind": "cut", "from": MEMBERS[0], "to": [*MEMBERS[1:], "A", "B"], "at": 0.1}
    seen = lab.play(document(cut)).data["states"][MEMBERS[0]]
    (looks,) = [at for at, state in seen if state["role"] == "looking"]
    assert 1.5 < looks < 2.5


def test_the_ensemble_drops_a_holder_after_its_own_clock_has_told_it() -> None:
    at = moments(lab.play(lab.load("zookeeper-session")))
    assert at["A", "told"] < at[LEADER, "session ended"] < at["B", "granted"]


def test_a_revoked_holder_is_told() -> None:
    slow = ["at 0.5", "acquire seat ttl 5", "read", "work 6", "append Alice", "release"]
    actors = {"A": {"script": slow}, "B": {"script": B}}
    trace = lab.play(document({"kind": "revoke", "at": 1.0}, actors=actors))
    assert trace.outcome["told"] == ["A"]
    assert (trace.outcome["register"], trace.outcome["refused"]) == ("Bob", 1)
    assert trace.outcome["broken"] == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"faults": [{"kind": "amnesia", "whom": LEADER, "at": 1}]}, "writes its log before"),
        (
            {"faults": [{"kind": "lose reply", "from": LEADER, "to": MEMBERS[0], "at": 1}]},
            "members lose nothing that they say to each other",
        ),
        ({"engine": {"kind": "zookeeper", "nodes": 5}}, "engine.nodes: zookeeper is 3 servers"),
        ({"engine": {"kind": "redis", "session": 4}}, "only zookeeper has sessions"),
        ({"engine": {"kind": "zookeeper", "session": 90}}, "a number from 1 to 40 is wanted"),
        (
            {"actors": {"A": {"client": "textbook", "script": A}}, "resource": {"guard": False}},
            "the textbook recipe is for redis and redlock",
        ),
    ],
)
def test_what_an_ensemble_cannot_play_is_refused_in_words(more: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        lab.play(document(**more))
