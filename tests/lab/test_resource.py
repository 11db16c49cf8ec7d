"""What a resource checks in the step in which it changes: a key, a version, what is left."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import lab
from fencelock.errors import UsageError
from fencelock.lab import Trace


def played(*scripts: list[str], **more: Any) -> Trace:
    """Actors A, B, … without a lock, unless more is said."""
    named = zip("ABC", scripts, strict=False)
    actors = {name: {"client": "none", "script": script} for name, script in named}
    facts = {"v": 1, "title": "A database", "until": 6, "engine": {"kind": "store"}}
    return lab.play(facts | {"actors": actors, "resource": {"guard": False}} | more)


def ruling(trace: Trace, checker: str) -> dict[str, Any]:
    (found,) = [one for one in trace.verdict if one["checker"] == checker]
    return found


def words(trace: Trace, lane: str) -> list[str]:
    return [one["words"] for one in trace.data["events"] if one["lane"] == lane]


# Keys


def test_a_key_is_taken_once_and_whoever_comes_second_goes_on() -> None:
    trace = played(
        ["at 0.5", "insert 100 once pay-7"], ["at 1", "insert 100 once pay-7", "insert 5 once b"]
    )
    assert trace.outcome["register"] == "100 5"
    assert trace.outcome["writes"] == 2
    assert trace.outcome["stopped"] == []
    said = ["inserts nothing: pay-7 was done before", "inserts 5 for b"]
    assert words(trace, "B") == said
    assert ruling(trace, "once_per_window")["outcome"] == "held"
    assert ruling(trace, "skipped_when_done")["outcome"] == "held"


def test_a_key_that_nobody_checks_is_judged() -> None:
    trace = played(["at 0.5", "insert 100 for pay-7"], ["at 1", "insert 100 for pay-7"])
    assert trace.outcome["register"] == "100 100"
    found = ruling(trace, "once_per_window")
    assert found["outcome"] == "broken"
    assert found["question"] == "work for one window, or under one key, is done once at the most"
    (violation,) = found["violations"]
    assert violation["words"].startswith("the work of 'pay-7' was done by A and, at 1.")
    assert 1.0 < violation["at"] < 1.1
    assert trace.outcome["broken"] == ["once_per_window"]


def test_a_key_is_only_kept_where_it_is_checked() -> None:
    trace = played(["at 0.5", "insert a for k"], ["at 1", "insert b once k"])
    assert trace.outcome["register"] == "a b"


def test_an_insert_whose_answer_is_lost_may_have_happened_and_is_not_accused() -> None:
    lost = {"kind": "lose reply", "from": "resource", "to": "A", "at": 0.4}
    scripts = ["at 0.5", "insert 100 once k"], ["at 2", "insert 100 once k"]
    trace = played(*scripts, faults=[lost])
    assert trace.outcome["register"] == "100"
    assert trace.outcome["stopped"] == ["A"]
    assert trace.outcome["broken"] == []
    twice = ["at 0.5", "insert 100 for k"], ["at 2", "insert 100 for k"]
    trace = played(*twice, faults=[lost])
    assert (trace.outcome["register"], trace.outcome["broken"]) == ("100 100", [])


def test_inserts_lose_nothing_and_a_write_over_them_does() -> None:
    both = [f"at {at}" for at in (0.5, 0.5)], ["insert a", "insert b"]
    trace = played(*([at, insert] for at, insert in zip(*both, strict=True)))
    assert sorted(trace.outcome["register"].split()) == ["a", "b"]
    assert trace.outcome["broken"] == []
    over = played(["at 0.5", "read", "work 1", "append a"], ["at 1", "insert b"])
    assert over.outcome["register"] == "a"
    assert over.outcome["broken"] == ["no_lost_update"]


# Versions


def test_what_has_changed_is_read_again_and_retries_are_counted() -> None:
    race = [["at 0.5", "read", "work 0.3", f"append {name} if unchanged"] for name in "abc"]
    trace = played(*race)
    assert sorted(trace.outcome["register"].split()) == ["a", "b", "c"]
    assert sum(trace.outcome["retries"].values()) >= 2
    assert trace.outcome["broken"] == []
    again = [one for one in trace.data["events"] if one["kind"] == "conflict"]
    assert len(again) == sum(trace.outcome["retries"].values())
    assert again[0]["words"].endswith("if unchanged: it has changed, and is read again")


def test_a_value_that_came_back_is_not_unchanged() -> None:
    back = ["at 1", "write x", "write start"]
    trace = played(
        ["at 0.5", "read", "work 1", "append a if unchanged"],
        back,
        resource={"guard": False, "value": "start"},
    )
    assert trace.outcome["retries"] == {"A": 1}
    assert trace.outcome["register"] == "start a"


def test_it_goes_back_to_the_last_read_alone() -> None:
    script = ["at 0.5", "read", "insert first", "read", "work 1", "write mine if unchanged"]
    trace = played(script, ["at 1", "insert b"])
    assert words(trace, "A").count("inserts first") == 1
    assert [one for one in words(trace, "A") if one.startswith("reads")] == [
        "reads nothing",
        "reads first",
        "reads first b",
    ]


def test_retries_of_a_process_that_begins_anew_are_kept() -> None:
    restart = {"kind": "restart", "whom": "A", "at": 2.0, "for": 0.5}
    script = ["at 0.5", "read", "work 1", "append a if unchanged", "work 3"]
    trace = played(script, ["at 1", "insert b"], faults=[restart])
    assert trace.outcome["retries"] == {"A": 1}


# What is left


def test_no_more_is_taken_than_there_is() -> None:
    takers = [["at 0.5", "take 2"]] * 3
    trace = played(*takers, resource={"guard": False, "value": "5"})
    assert trace.outcome["register"] == "1"
    assert trace.outcome["writes"] == 2
    assert len(trace.outcome["stopped"]) == 1
    assert trace.outcome["broken"] == []


def test_where_there_is_no_number_nothing_is_left() -> None:
    stock = {"guard": False, "value": "3"}
    trace = played(["at 0.5", "write Alice"], ["at 1", "take 1"], resource=stock)
    assert trace.outcome["register"] == "Alice"
    assert words(trace, "B") == ["stops: there are too few left to take"]


# With a guard


@pytest.mark.parametrize("change", ["insert a once k", "append a if unchanged", "take 1"])
def test_a_stale_fence_is_refused_whatever_is_asked(change: str) -> None:
    late = ["at 0.5", "acquire seat ttl 2", "read", "work 1", change, "release"]
    then = ["at 0.8", "acquire seat ttl 2", "read", "release"]
    actors = {"A": {"script": late}, "B": {"script": then}}
    pause = {"kind": "pause", "whom": "A", "at": 1.0, "for": 4.0}
    trace = played(actors=actors, resource={"value": "7"}, faults=[pause], until=9)
    assert (trace.outcome["register"], trace.outcome["refused"]) == ("7", 1)
    assert trace.outcome["stopped"] == ["A"]
    assert trace.outcome["broken"] == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("insert 100 once", "line 2: a key is wanted after 'once'"),
        ("insert 100 for", "line 2: a key is wanted after 'for'"),
        ("insert", "line 2: 'insert' is not a statement; there are"),
        ("take", "line 2: 'take' is not a statement"),
        ("take 0", "line 2: '0' is not a whole number from 1 to 1000000"),
        ("take 99999999999", "line 2: '99999999999' is not a whole number"),
        ("take 1.5", "line 2: '1.5' is not a whole number"),
        ("take 1", "line 2: resource.value must be a whole number"),
        ("write x if unchanged", "line 2: there is no read before it"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"actors.A.script {why}"):
        played(["at 0.5", line])


def test_the_value_of_a_resource_is_a_text() -> None:
    with pytest.raises(UsageError, match=r"resource.value: a text of 1 to"):
        played(["at 0.5", "take 1"], resource={"guard": False, "value": 5})
