"""Histories as traces: what is drawn of whom, and within which bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from fencelock import lab
from fencelock.judge import Event, History, Promises, Ruling, Violation, verdict
from fencelock.lab.histories import (
    CLIENTS_MAX,
    Part,
    Report,
    page_of,
    parts,
    traces,
)
from fencelock.lab.histories.windows import GRANTS_MAX
from fencelock.web.bundle import held
from tests.judge.telling import acquire, history, lasting, note, read, release, write

FENCE = 1_794_945_345_564_775
PROMISES = Promises(ttl=2.0, slack=0.01)


def report(told: History, **more: Any) -> Report:
    return Report(told, verdict(told, PROMISES).rulings, "A run", **more)


def spans(part: Part, kind: str, lane: str = "") -> list[tuple[float, float]]:
    return [
        (one["from"], one["to"])
        for one in part.trace.data["spans"]
        if one["kind"] == kind and lane in ("", one["lane"])
    ]


def lanes(part: Part, kind: str = "client") -> list[str]:
    return [one["name"] for one in part.trace.data["lanes"] if one["kind"] == kind]


def turns(count: int, clients: Iterable[str], lock: str = "seat") -> History:
    """One holds after the other, each for half a second, and writes."""
    names, told = list(clients), list[Event]()
    for number in range(count):
        at, client = float(number), names[number % len(names)]
        fence = FENCE + 10 * number
        told += acquire(client, fence, at, at + 0.1)
        told += write(client, fence, at + 0.2, at + 0.3, number + 1)
        told += release(client, fence, at + 0.5, at + 0.6)
    return history([event._replace(name=lock) if event.name == "seat" else event for event in told])


def test_a_trace_of_a_history_has_what_a_trace_of_a_play_has() -> None:
    (part,) = parts(report(turns(3, ["ann", "bob"])))
    played = lab.play(lab.load("ghost-writer")).data
    assert {*played} - {*part.trace.data} == set()
    assert {*part.trace.data} - {*played} == {"from", "run", "document"}
    assert part.trace.data["document"] is None
    assert part.trace.data["versions"] == played["versions"]
    kinds = {one["kind"]: {*one} for one in part.trace.data["lanes"]}
    for one in played["lanes"]:
        assert one["kind"] == "server" or {*one} <= kinds[one["kind"]]
    assert {*part.trace.data["verdict"][0]} >= {*played["verdict"][0]}
    json.loads(part.trace.json())


def test_who_holds_waits_writes_and_with_which_fence() -> None:
    (part,) = parts(report(turns(2, ["ann", "bob"])))
    assert spans(part, "holds") == [(0.1, 0.5), (1.1, 1.5)]
    assert spans(part, "waits") == [(0.0, 0.1), (1.0, 1.1)]
    assert part.trace.data["fences"] == {str(FENCE): 33, str(FENCE + 10): 34}
    words = [one["words"] for one in part.trace.data["events"]]
    assert words == [
        "holds the lock with fence 33", "writes 1", "releases it",
        "holds the lock with fence 34", "writes 2", "releases it",
    ]  # fmt: skip
    states = part.trace.data["states"]["register"]
    assert [(state["value"], state["writes"]) for _, state in states] == [
        ("", 0),
        ("1", 1),
        ("2", 2),
    ]


def test_a_wait_and_a_hold_end_with_their_client() -> None:
    """Whoever was killed waits no more, whenever the end of its call was seen."""
    told = history(
        acquire("ann", FENCE, 1.0, 1.1),
        acquire("bob", 0, 1.2, 9.0, "unknown"),
        note("bob", "crash", 2.0),
        note("bob", "restart", 3.0),
        note("ann", "crash", 4.0),
        acquire("cyd", FENCE + 1, 8.0, 9.5),
    )
    (part,) = parts(report(told))
    assert spans(part, "waits", "bob") == [(1.2, 2.0)]
    assert spans(part, "down", "bob") == [(2.0, 3.0)]
    assert spans(part, "holds", "ann") == [(1.1, 4.0)]
    assert spans(part, "down", "ann") == [(4.0, 9.5)]
    told_of_bob = [one["words"] for one in part.trace.data["events"] if one["lane"] == "bob"]
    assert told_of_bob == ["is killed", "begins anew"]


def test_two_who_tell_of_one_pause_tell_of_one_pause() -> None:
    """The process ran for the last time a while before it was stopped."""
    told = history(
        note("ann", "pause", 1.0), acquire("ann", FENCE, 1.02, 1.1), note("ann", "pause", 1.2),
        note("ann", "resume", 3.0), note("ann", "resume", 3.1), release("ann", FENCE, 3.2, 3.3),
    )  # fmt: skip
    (part,) = parts(report(told))
    assert spans(part, "frozen") == [(1.2, 3.0)]
    words = [one["words"] for one in part.trace.data["events"]]
    assert [one for one in words if one in ("is frozen", "goes on")] == ["is frozen", "goes on"]


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ([note("ann", "lost", 2.0, FENCE)], (2.0, 5.0)),
        ([acquire("bob", FENCE + 1, 1.5, 3.0)], (3.0, 5.0)),
        ([], None),
    ],
    ids=["told", "granted to another", "held"],
)
def test_a_belief_is_wrong_from_when_the_lock_was_lost(
    told: list[list[Event]], wrong: tuple[float, float] | None
) -> None:
    held_by_ann = [acquire("ann", FENCE, 1.0, 1.1), release("ann", FENCE, 5.0, 5.1)]
    (part,) = parts(report(history(*held_by_ann, *told)))
    assert spans(part, "believes wrongly", "ann") == ([wrong] if wrong else [])


def test_a_lease_that_nobody_renews_is_believed_in_wrongly_after_its_end() -> None:
    told = history(lasting(3.0, acquire("ann", 0, 1.0, 1.1)), release("ann", 0, 5.0, 5.1, "fail"))
    (part,) = parts(report(told))
    assert spans(part, "holds") == [(1.1, 5.0)]
    assert spans(part, "believes wrongly") == [(3.0, 5.0)]


def test_a_refusal_says_what_the_resource_had_seen() -> None:
    told = history(
        acquire("ann", FENCE, 1.0, 1.1), note("ann", "lost", 2.0, FENCE),
        acquire("bob", FENCE + 1, 1.5, 3.0), read("bob", FENCE + 1, 3.1, 3.2, 0),
        write("ann", FENCE, 3.9, 4.0, 7, "fail"), release("ann", FENCE, 5.0, 5.1, "fail"),
        release("bob", FENCE + 1, 5.0, 5.1),
    )  # fmt: skip
    (part,) = parts(report(told))
    (refused,) = [one for one in part.trace.data["events"] if one["kind"] == "refused"]
    assert refused["words"] == "write: refused, fence 33 is below 34"
    assert (refused["fence"], refused["highest"]) == (FENCE, FENCE + 1)
    assert part.trace.data["states"]["register"][-1][1]["refused"] == 1


def test_an_update_that_was_lost_without_a_guard_is_on_a_lane_of_its_own() -> None:
    lost = [Event(1.3, "ann", "note", "write", 0, "seat", detail="2 updates of others are lost")]
    (part,) = parts(report(turns(3, ["ann"]), losses=lost))
    assert lanes(part, "resource") == ["guarded", "unguarded"]
    assert [one["lost"] for _, one in part.trace.data["states"]["unguarded"]] == [0, 1]
    words = [one["words"] for one in part.trace.data["events"] if one["kind"] == "lost update"]
    assert words == ["writes without a guard: 2 updates of others are lost"]


def test_a_long_history_has_parts_that_follow_each_other() -> None:
    found = parts(report(turns(100, ["ann", "bob"])))
    assert len(found) > 3
    grants = [
        sum(event["kind"] == "granted" for event in part.trace.data["events"]) for part in found
    ]
    assert sum(grants) == 100, "none is shown twice, and none is missing"
    assert max(grants) <= GRANTS_MAX
    edges = [(part.trace.data["from"], part.trace.data["until"]) for part in found]
    assert all(one[1] == other[0] for one, other in pairwise(edges))
    for part in found:
        assert all(
            part.trace.data["from"] <= one["from"] <= one["to"] <= part.trace.data["until"]
            for one in part.trace.data["spans"]
        )


def test_what_went_wrong_comes_first_and_names_the_parts_that_show_it() -> None:
    told = turns(100, ["ann", "bob"])
    thief = acquire("dan", FENCE + 605, 60.2, 60.3)
    stolen = history(told, thief, release("dan", FENCE + 605, 60.45, 60.46))
    found = parts(report(stolen))
    first, *others = found
    assert first.title == "around 60.30 s: never two holders"
    assert first.trace.data["from"] < 60.1
    assert first.trace.data["until"] > 60.5
    (broken,) = [one for one in first.trace.verdict if one["checker"] == "one_holder"]
    (violation,) = broken["violations"]
    assert violation["parts"][0] == first.name
    (other,) = [part for part in others if part.name in violation["parts"]]
    assert other.trace.data["from"] <= 60.3 <= other.trace.data["until"]
    assert "dan" in lanes(other)
    assert "fence 93" in violation["words"], "fences are short ones there, too"
    assert {one["outcome"] for one in first.trace.verdict if not one["violations"]} == {
        "held", "not judged",
    }  # fmt: skip


def test_no_part_has_more_clients_than_colors_and_all_holders_have_a_lane() -> None:
    names = [f"client {number + 1}" for number in range(30)]
    waits = [acquire(name, 0, 0.0, 90.0, "fail") for name in names[20:]]
    found = parts(report(history(turns(90, names[:20]), *waits)))
    for part in found:
        assert len(lanes(part)) <= CLIENTS_MAX
        held_by = {one["lane"] for one in part.trace.data["events"] if one["kind"] == "granted"}
        assert held_by <= {*lanes(part)}
        hues = [one["hue"] for one in part.trace.data["lanes"] if one["kind"] == "client"]
        assert len({*hues}) == len(hues)
        assert any("only waited here" in one for one in part.trace.data["run"]["left_out"])
    shown = [one["lane"] for part in found for one in part.trace.data["events"]
             if one["kind"] == "granted"]  # fmt: skip
    assert len(shown) == 90


def test_each_of_several_locks_has_parts_of_its_own() -> None:
    one, other = turns(5, ["ann", "bob"], "run-1"), turns(5, ["ann", "bob"], "run-2")
    told = History.merged([one, other])
    found = parts(report(told, names={"run-1": "lock 1", "run-2": "lock 2"}))
    assert [part.title.partition(",")[0] for part in found] == ["lock 1", "lock 2"]
    for part in found:
        assert sum(event["kind"] == "granted" for event in part.trace.data["events"]) == 5


def test_a_history_that_is_too_long_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "PARTS_MAX", 5)
    told = turns(400, ["ann", "bob"])
    found = parts(Report(told, [], "A run"))
    assert len(found) == 5
    (words,) = found[0].trace.data["run"]["left_out"]
    missing, total = map(int, re.findall(r"\d+", words)[:2])
    assert total - missing == 5
    assert "stretches of time, between" in words
    small = parts(Report(told, [], "A run"), bytes_max=30_000)
    assert 1 <= len(small) < 5
    assert sum(len(part.trace.json()) for part in small) < 40_000


def test_a_page_holds_what_it_shows_and_nothing_can_end_its_script() -> None:
    found = parts(report(turns(2, ["</script><b>"]), facts=[("command", "</script>")]))
    page = page_of(found)
    kept: Any = held(page)
    assert [one["name"] for one in kept["parts"]] == ["part-1"]
    assert kept["parts"][0]["trace"]["lanes"][0]["name"] == "</script><b>"
    assert "</script><b>" not in page


def test_nothing_happened() -> None:
    (part,) = parts(Report(History(), [], "Nothing"))
    assert lanes(part) == []
    broken = Ruling("x", "is it?", "broken", "", (Violation("x", "it is not", (), 3.0),))
    (part,) = parts(Report(History(), [broken], "Nothing"))
    assert part.trace.verdict[0]["violations"][0]["at"] == 3.0
