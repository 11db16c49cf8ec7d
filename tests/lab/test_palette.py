"""The faults that the page offers are those of documents, and each can be played as offered."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import lab
from fencelock.errors import UsageError
from fencelock.lab.document import FAULTS, SERVERS
from fencelock.lab.palette import palette

WHOM: dict[str, dict[str, Any]] = {
    "actor": {"whom": "A"}, "server": {"whom": "redis"}, "way": {"from": "A", "to": "redis"},
    "lock": {},
}  # fmt: skip
VALUES: dict[str, object] = {"for": 1, "by": 1, "one_way": True}


def test_the_palette_has_every_kind_of_fault_once() -> None:
    assert [one["kind"] for one in palette()] == list(FAULTS)
    assert len(palette()) == 13


@pytest.mark.parametrize("offered", palette(), ids=lambda one: str(one["kind"]))
def test_what_is_offered_can_be_played(offered: dict[str, Any]) -> None:
    fault = {"kind": offered["kind"], "at": 1.0, **WHOM[offered["of"]], **offered["first"]}
    document = lab.load("ghost-writer") | {"faults": [fault]}
    document.pop("expect")
    strikes = [one for one in lab.play(document).data["events"] if one["at"] == 1.0]
    assert strikes, "nothing happens at that moment"
    for field, value in VALUES.items():
        changed = document | {"faults": [{**fault, field: value}]}
        if field in offered["fields"]:
            lab.play(changed)
        else:
            with pytest.raises(UsageError, match=f"'{field}' is unknown"):
                lab.play(changed)


@pytest.mark.parametrize("engine", SERVERS)
def test_what_makes_no_sense_at_an_engine_is_not_offered_there(engine: str) -> None:
    document = lab.load("your-turn") | {"engine": {"kind": engine}, "expect": {}, "steps": []}
    lanes = lab.play(document).data["lanes"]
    server = next(one["name"] for one in lanes if one["kind"] == "server")
    for one in palette():
        whom = {
            name: server if value == "redis" else value for name, value in WHOM[one["of"]].items()
        }
        fault = {"kind": one["kind"], "at": 1.0, **whom, **one["first"]}
        if engine in one["not_at"]:
            with pytest.raises(UsageError, match="faults"):
                lab.play(document | {"faults": [fault]})
        else:
            lab.play(document | {"faults": [fault]})
