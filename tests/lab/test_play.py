"""Playing: equal documents give equal traces, and each fault does what its name says."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fencelock.lab
from fencelock import lab
from fencelock.lab import Trace

LAB = Path(fencelock.lab.__file__).parent
A = ["at 0.5", "acquire seat ttl 5", "read", "work 1", "append Alice", "release"]
B = ["at 0.8", "acquire seat ttl 5", "read", "work 0.5", "append Bob", "release"]
ENGINES = ("store", "redis", "redlock", "zookeeper", "service")


def played(
    *faults: dict[str, Any],
    kind: str = "redis",
    a: list[str] = A,
    b: list[str] = B,
    until: float = 30,
    seed: int = 1,
) -> Trace:
    document = {
        "v": 1,
        "title": "Faults",
        "seed": seed,
        "until": until,
        "engine": {"kind": kind},
        "actors": {"A": {"script": a}, "B": {"script": b}},
        "faults": list(faults),
    }
    return lab.play(document)


def words(trace: Trace, lane: str) -> list[str]:
    return [one["words"] for one in trace.data["events"] if one["lane"] == lane]


def kinds(trace: Trace, lane: str) -> list[str]:
    return [one["kind"] for one in trace.data["events"] if one["lane"] == lane]


@pytest.mark.parametrize("kind", ENGINES)
def test_two_take_turns_at_every_engine(kind: str) -> None:
    trace = played(kind=kind)
    assert trace.outcome["register"] == "Alice Bob"
    assert trace.outcome["granted"] == ["A", "B"]
    assert trace.outcome["broken"] == []
    assert [one["outcome"] for one in trace.verdict] == ["held"] * 4


@pytest.mark.parametrize("kind", ENGINES)
def test_equal_documents_give_equal_traces_and_other_seeds_do_not(kind: str) -> None:
    one, again, other = played(kind=kind), played(kind=kind), played(kind=kind, seed=2)
    assert one.data == again.data
    assert one.digest != other.digest
    assert one.data["versions"] == {"trace": 1, "fencelock": fencelock.__version__}


@pytest.mark.parametrize("name", ["redlock-majority", "zookeeper-queue", "service"])
def test_a_play_is_the_same_in_every_process(name: str) -> None:
    code = f"from fencelock import lab; print(lab.play(lab.load({name!r})).digest)"
    digests = {lab.play(lab.load(name)).digest}
    for hashing in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1


def test_nothing_of_the_lab_asks_a_clock_chance_or_the_machine() -> None:
    """But for the server of its page, which plays nothing by itself."""
    forbidden = {"asyncio", "datetime", "os", "random", "secrets", "socket", "threading", "time"}
    found = {
        name
        for file in LAB.rglob("*.py")
        if file.name != "page.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""] * (not node.level)
        )
    }
    assert found & forbidden == set()
    assert "json" in found


def test_a_trace_is_saved_as_json(tmp_path: Path) -> None:
    trace = lab.play(lab.load("ghost-writer"))
    trace.save(tmp_path / "ghost.json")
    assert json.loads((tmp_path / "ghost.json").read_text()) == trace.data


def test_a_missing_package_is_named_with_what_to_install() -> None:
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lupa":
            raise ModuleNotFoundError("No module named 'lupa'", name="lupa")
sys.meta_path.insert(0, Absent())
from fencelock import lab
from fencelock.errors import Misconfigured
assert lab.play(lab.load("double-booking")).differences() == []
for name in ("ghost-writer", "taking-turns"):
    try:
        lab.play(lab.load(name))
    except Misconfigured as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = 'a simulated redis needs the package lupa: pip install "fencelock[lab]"'
    assert run.stdout.splitlines() == [said, said]


@pytest.mark.parametrize(
    ("package", "name", "kind"),
    [("kazoo", "zookeeper-queue", "zookeeper"), ("msgspec", "service", "service")],
)
def test_what_an_engine_needs_is_named_if_it_is_missing(package: str, name: str, kind: str) -> None:
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError("No module of this name", name={package!r})
sys.meta_path.insert(0, Absent())
from fencelock import lab
from fencelock.errors import Misconfigured
assert lab.play(lab.load("ghost-writer")).differences() == []
try:
    lab.play(lab.load({name!r}))
except Misconfigured as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = f'a simulated {kind} needs the package {package}: pip install "fencelock[lab]"'
    assert run.stdout.splitlines() == [said]


# Faults


@pytest.mark.parametrize("kind", [kind for kind in ENGINES if kind != "zookeeper"])
def test_a_killed_holder_keeps_the_lock_for_its_ttl_and_no_longer(kind: str) -> None:
    trace = played({"kind": "crash", "whom": "A", "at": 1.0}, kind=kind)
    assert trace.outcome["granted"] == ["A", "B"]
    assert trace.outcome["register"] == "Bob"
    (granted,) = [
        one for one in trace.data["events"] if one["kind"] == "granted" and one["lane"] == "B"
    ]
    assert 5.5 <= granted["at"] < 8
    down = [one for one in trace.data["spans"] if one["kind"] == "down"]
    assert [(one["lane"], one["from"], one["to"]) for one in down] == [("A", 1.0, 30.0)]


@pytest.mark.parametrize("kind", ["store", "redis"])
def test_every_message_has_a_fate(kind: str) -> None:
    """Of datagrams and of connections: to one that is frozen, gone or cut off, and the others."""
    slow = ["at 0.5", "acquire seat ttl 2", "read", "work 9", "append Alice", "release"]
    faults: list[dict[str, Any]] = [
        {"kind": "pause", "whom": "A", "at": 0.505, "for": 0.5},
        {"kind": "cut", "from": "A", "to": kind, "at": 2.0, "for": 3.0},
        {"kind": "crash", "whom": "B", "at": 0.805},
    ]
    messages = played(*faults, kind=kind, a=slow).data["messages"]
    fates = {one["fate"] for one in messages}
    cut = {"cut off"} if kind == "store" else set[str]()  # a connection brings it later
    assert fates >= {"arrived", "waits for its process", "nobody is there"} | cut
    early = [one for one in messages if one["sent"] < 25]
    assert [one for one in early if one["fate"] == "under way"] == []


def test_a_restarted_process_runs_its_script_anew() -> None:
    trace = played({"kind": "restart", "whom": "A", "at": 1.0, "for": 2.0})
    assert trace.outcome["granted"] == ["A", "B", "A"]
    assert trace.outcome["register"] == "Bob Alice"
    assert "begins anew" in words(trace, "A")


def test_a_cancelled_script_releases_what_it_holds() -> None:
    trace = played({"kind": "cancel", "whom": "A", "at": 1.0})
    assert kinds(trace, "A") == ["granted", "read", "cancel", "cancelled", "released"]
    assert trace.outcome["register"] == "Bob"


def test_a_revoked_holder_is_told_and_refused() -> None:
    slow = ["at 0.5", "acquire seat ttl 5", "read", "work 6", "append Alice", "release"]
    trace = played({"kind": "revoke", "at": 1.0}, a=slow)
    assert "told" in kinds(trace, "A")
    assert trace.outcome["granted"] == ["A", "B"]
    assert (trace.outcome["register"], trace.outcome["refused"]) == ("Bob", 1)


@pytest.mark.parametrize("kind", ENGINES)
def test_a_lock_that_is_taken_away_is_not_held_by_two(kind: str) -> None:
    """B gets it before A can have heard of it: that is what was asked for."""
    slow = ["at 0.5", "acquire seat ttl 5", "work 6", "release"]
    lanes = played(kind=kind, until=0.1).data["lanes"]
    servers = [one["name"] for one in lanes if one["kind"] == "server"]
    cut = {"kind": "cut", "from": "A", "to": servers}
    trace = played(cut | {"at": 0.9, "for": 3.0}, {"kind": "revoke", "at": 1.0}, kind=kind, a=slow)
    assert trace.outcome["granted"] == ["A", "B"]
    assert trace.outcome["broken"] == []


def test_whoever_stops_on_loss_writes_nothing() -> None:
    slow = ["at 0.5", "acquire seat ttl 5", "stop on loss", "read", "work 6", "append Alice"]
    trace = played({"kind": "revoke", "at": 1.0}, a=slow)
    assert (trace.outcome["register"], trace.outcome["refused"]) == ("Bob", 0)


def test_a_cut_is_told_as_a_loss_before_the_server_gives_the_lock_away() -> None:
    slow = ["at 0.5", "acquire seat ttl 5", "read", "work 9", "append Alice", "release"]
    cut = {"kind": "cut", "from": "A", "to": "redis", "at": 1.0, "for": 15.0}
    trace = played(cut, a=slow)
    at = {(one["lane"], one["kind"]): one["at"] for one in trace.data["events"]}
    assert at["A", "told"] < at["B", "granted"] < at["A", "refused"]
    assert trace.outcome["broken"] == []
    assert any(one["kind"] == "cut" and one["lane"] == "A" for one in trace.data["spans"])


def test_a_cut_of_one_way_holds_back_that_way_alone() -> None:
    cut = {"kind": "cut", "from": "redis", "to": "A", "at": 0.4, "for": 1.0, "one_way": True}
    messages = [one for one in played(cut).data["messages"] if 0.4 < one["sent"] < 1.3]
    up = [one["arrived"] for one in messages if one["to"] == "redis" and one["from"] == "A"]
    down = [one["arrived"] for one in messages if one["to"] == "A" and one["from"] == "redis"]
    assert up
    assert down
    assert max(up) < 1.4 <= min(down)


def test_a_slow_way_makes_everything_late_by_that_much() -> None:
    slow = {"kind": "slow", "from": "A", "to": "redis", "by": 0.5, "at": 0.3, "for": 1.0}
    quick, late = played(), played(slow)
    first = next(one["at"] for one in quick.data["events"] if one["kind"] == "granted")
    then = next(one["at"] for one in late.data["events"] if one["kind"] == "granted")
    assert first < then


@pytest.mark.parametrize("kind", ["store", "redis"])
def test_a_frozen_server_answers_when_it_goes_on(kind: str) -> None:
    trace = played({"kind": "freeze", "whom": kind, "at": 0.4, "for": 1.0}, kind=kind)
    at = {(one["lane"], one["kind"]): one["at"] for one in trace.data["events"]}
    assert at[kind, "resume"] == 1.4 < min(at["A", "granted"], at["B", "granted"])
    assert sorted(trace.outcome["register"].split()) == ["Alice", "Bob"]  # either may be first


def test_a_rebooted_server_remembers_and_one_with_amnesia_does_not() -> None:
    slow = ["at 0.5", "acquire seat ttl 9 renew off", "read", "work 4", "append Alice", "release"]
    late = ["at 2", *B[1:]]
    reboot = {"kind": "reboot", "whom": "redis", "at": 1.0, "for": 0.5}
    remembers = played(reboot, a=slow, b=late)
    forgets = played(reboot | {"kind": "amnesia"}, a=slow, b=late)
    assert remembers.outcome["register"] == "Alice Bob"
    assert (forgets.outcome["register"], forgets.outcome["refused"]) == ("Bob", 1)
    assert forgets.outcome["broken"] == ["one_holder"]


def test_a_lost_reply_leaves_the_outcome_unknown_and_the_lock_is_found_again() -> None:
    lost = {"kind": "lose reply", "from": "redis", "to": "A", "at": 0.4}
    trace = played(lost)
    assert any(one["fate"] == "lost" for one in trace.data["messages"])
    assert sorted(trace.outcome["register"].split()) == ["Alice", "Bob"]
    assert trace.outcome["broken"] == []


def test_a_textbook_client_of_redlock_asks_one_server_after_the_other() -> None:
    document = lab.load("redlock-majority") | {"faults": [], "expect": None}
    script = ["at 0.5", "acquire seat ttl 5", "work 1", "release"]
    document["actors"] = {"A": {"client": "textbook", "script": script}}
    document["resource"] = {"guard": False}
    trace = lab.play(document)
    asked = [one for one in trace.data["messages"] if one["what"].startswith("SET seat")]
    assert [one["to"] for one in asked] == [f"redis-{number}" for number in range(1, 6)]
    arrived = [one["arrived"] for one in asked]
    assert all(before < after["sent"] for before, after in zip(arrived, asked[1:], strict=False))
    assert trace.outcome["released"] == {"A": True}


def test_two_holders_are_told_from_the_moment_of_the_second_grant() -> None:
    trace = lab.play(lab.load("redlock-clock-jump"))
    (ruling,) = [one for one in trace.verdict if one["checker"] == "one_holder"]
    grants = {one["lane"]: one["at"] for one in trace.data["events"] if one["kind"] == "granted"}
    assert [one["at"] for one in ruling["violations"]] == [grants["B"]]
