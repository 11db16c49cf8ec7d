"""A document is checked to its last field, and what is wrong is said with its place."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from fencelock import lab
from fencelock.errors import UsageError

SCRIPT = ["at 0.5", "acquire seat ttl 5", "read", "work 1", "write Alice", "release"]
PLAIN: dict[str, Any] = {
    "v": 1,
    "title": "Plain",
    "until": 3,
    "engine": {"kind": "store"},
    "actors": {"A": {"client": "fencelock", "script": SCRIPT}},
}


def changed(path: str, value: object) -> dict[str, Any]:
    """The plain document with one field set."""
    document = copy.deepcopy(PLAIN)
    place: Any = document
    *way, last = path.split("/")
    for name in way:
        place = place.setdefault(name, {})
    place[last] = value
    return document


def line(text: str, client: str = "fencelock") -> dict[str, Any]:
    """The plain document on Redis with one line after the acquire."""
    document = changed("actors/A", {"client": client, "script": ["acquire seat ttl 5", text]})
    return document | {"engine": {"kind": "redis"}, "resource": {"guard": client == "fencelock"}}


def fault(**fields: object) -> dict[str, Any]:
    return changed("faults", [fields])


def test_a_plain_document_is_played() -> None:
    trace = lab.play(PLAIN)
    assert trace.outcome["register"] == "Alice"
    assert trace.differences() == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "the document: an object with names and values is wanted, not []"),
        (None, "v: this is version 1 of documents, not None"),
        (changed("v", 2), "v: this is version 1 of documents, not 2"),
        (changed("colour", "red"), "the document: 'colour' is unknown; there are v, title,"),
        (changed("title", 7), "title: a text of 1 to 2000 characters is wanted, not 7"),
        (changed("until", 601), "until: a number from 0.001 to 600 is wanted, not 601"),
        (changed("until", None), "until: a number from 0.001 to 600 is wanted, not None"),
        (changed("until", float("nan")), "until: a number from 0.001 to 600 is wanted, not nan"),
        (changed("until", True), "until: a number"),
        (changed("seed", 1.5), "seed: a whole number from 0 to"),
        (changed("seed", -1), "seed: a whole number from 0 to"),
        (changed("engine/kind", "mongo"), "engine.kind: there is no 'mongo', but store, redis,"),
        (changed("engine", {"kind": "service", "nodes": 2}), "service is a store and two nodes"),
        (changed("engine/nodes", 3), "engine.nodes: store is one server"),
        (changed("engine", {"kind": "redlock", "nodes": 4}), "engine.nodes: 3, 5 or 7 servers"),
        (changed("engine", {"kind": "redlock", "nodes": 9}), "engine.nodes: a whole number from 3"),
        (changed("actors", {}), "actors: there are 1 to 8 of them, not 0"),
        (changed("actors/A/client", "magic"), "actors.A.client: there is no 'magic', but"),
        (changed("actors/A/script", "read"), "actors.A.script: a list is wanted, not 'read'"),
        (changed("actors/A/script", ["read"]), "actors.A.script: nothing is acquired"),
        (changed("actors/store", {"script": SCRIPT}), "actors.store: store is already the name"),
        (changed("actors/1", {"script": SCRIPT}), "actors.1: a name is 1 to 20 letters"),
        (changed("actors/A/client", "textbook"), "actors.A.client: the textbook recipe is for"),
        (changed("actors/A/recipe", {}), "actors.A.recipe: only a textbook client has a recipe"),
        (line("acquier seat"), "actors.A.script line 2: 'acquier seat' is not a statement; there"),
        (line("work soon"), "actors.A.script line 2: 'soon' is not a time from 0 to 600 seconds"),
        (line("work -1"), "line 2: '-1' is not a time"),
        (line("work nan"), "line 2: 'nan' is not a time"),
        (line("acquire seat ttl 0"), "line 2: '0' is not a time from 0.05 to 600 seconds"),
        (line("acquire seat colour red"), "line 2: 'colour red' is no option of acquire"),
        (
            changed("actors/A/script", [*SCRIPT, "acquire other ttl 5"]),
            "actors: all acquire the same lock, not seat and other",
        ),
        (line("acquire seat"), "actors.A.script line 2: the lock of line 1 is not released yet"),
        (line("again"), "actors.A.script line 2: the lock of line 1 is not released yet"),
        (line("acquire seat forever"), "line 2: fencelock has no lease without an end"),
        (line("acquire seat ttl 5 forever", "textbook"), "line 2: a lock that is held forever"),
        (line("stop on loss", "textbook"), "line 2: nobody tells a textbook client of a loss"),
        (line("check", "local"), "line 2: a mutex of one process has no 'check'"),
        (line("check", "none"), "line 1: client none has no lock: leave 'acquire' out"),
        (
            line("read", "textbook") | {"resource": {"guard": True}},
            "resource.guard: A has no fence that a guard could compare",
        ),
        (
            changed("actors/A/script", ["read", *SCRIPT]),
            "actors.A.script line 1: the resource is guarded, and there is no fence before",
        ),
        (changed("resource/guard", "maybe"), "resource.guard: true, false, writes or above, not"),
        (changed("resource/name", "a b"), "resource.name: a name of 1 to 20 letters"),
        (changed("network/delay", [0.2, 0.1]), "network.delay: two numbers, the smaller first"),
        (changed("network/delay", [0.2]), "network.delay: two numbers"),
        (fault(kind="flood", at=1), "faults[0].kind: there is no 'flood', but pause, crash"),
        (fault(at=1), "faults[0].kind: a text of 1 to 2000 characters is wanted, not None"),
        (fault(kind="pause", at=1, whom="Z"), "faults[0].whom: there is no 'Z', but A"),
        (fault(kind="pause", whom="A"), "faults[0].at: a number from 0 to 600 is wanted, not None"),
        (fault(kind="step", at=1, whom="A", by=2), "faults[0].whom: there is no 'A', but store"),
        (fault(kind="pause", at=1, whom="A", by=2), "faults[0]: 'by' is unknown; there are kind,"),
        (fault(kind="cut", at=1, to="A"), "faults[0].from: a name, or a list of names is wanted"),
        (fault(kind="pace", at=1, whom="store", by=1), "faults[0].kind: no lease ends by"),
        (changed("steps", [{"at": 1, "say": "{C.fence}"}]), "steps[0].say: {C.fence} is unknown"),
        (changed("steps", [{"at": 9, "say": "late"}]), "steps[0].at: a number from 0 to 3"),
        (changed("expect", {"played": {"color": 1}}), "expect.played: 'color' is unknown"),
        (changed("expect", {"other": {}}), "expect: nothing is said about 'played'"),
        (changed("switches", {"a": {}}), "switches.a: a switch has at least one choice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(document: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        lab.play(document)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            changed("actors", {f"A{n}": {"script": SCRIPT} for n in range(9)}),
            "actors: there are 1 to 8 of them, not 9",
        ),
        (
            changed("actors", {f"A{n}": {"script": SCRIPT * 10} for n in range(4)}),
            "actors: their scripts have 240 lines, 200 at the most",
        ),
        (changed("actors/A/script", ["read"] * 201), "actors.A.script: 201 of them"),
        (fault() | {"faults": [{"kind": "pause"}] * 51}, "faults: 51 of them, 50 at the most"),
        (
            changed("until", 600)
            | {"actors": {"A": {"client": "none", "script": ["work 0"] * 180 + ["again"]}}},
            "the play has not come to 600 s within 200000 steps",
        ),
    ],
)  # fmt: skip
def test_a_document_is_bounded(document: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        lab.play(document)
    assert said in str(caught.value)


def test_a_switch_is_a_patch_and_an_unknown_one_is_refused() -> None:
    raw = PLAIN | {"switches": {"who": {"Alice": {}, "Bob": {"actors": {"A": {"script": BOB}}}}}}
    assert lab.play(raw).outcome["register"] == "Alice"
    chosen = lab.chosen(raw, who="Bob")
    assert lab.play(chosen).outcome["register"] == "Bob"
    assert "switches" not in chosen
    assert json.loads(json.dumps(chosen)) == chosen
    with pytest.raises(UsageError, match="there is no switch 'what'; this document has who"):
        lab.chosen(raw, what="Bob")
    with pytest.raises(UsageError, match="there is no choice 'Carol'; there are Alice, Bob"):
        lab.chosen(raw, who="Carol")


BOB = ["acquire seat ttl 5", "write Bob", "release"]


def test_playing_does_not_change_the_document() -> None:
    before = json.dumps(PLAIN)
    lab.play(PLAIN)
    assert json.dumps(PLAIN) == before


def test_an_unknown_scenario_is_answered_with_the_known() -> None:
    with pytest.raises(UsageError, match="there is no scenario 'ghost'; there are taking-turns"):
        lab.load("ghost")
    with pytest.raises(UsageError, match="there is no scenario"):
        lab.load("../../lab/scenarios/ghost-writer")
