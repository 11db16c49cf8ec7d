"""The description of the calls is that of the code, and is committed where others can read it."""

from __future__ import annotations

import json
from pathlib import Path

from fencelock.service import calls, openapi
from tests.service.nodes import Node

FILE = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_committed_description_is_that_of_the_table() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == openapi.document(), (
        "write it anew: python -m fencelock.service.openapi > docs/openapi.json"
    )


def test_every_call_is_described() -> None:
    document = openapi.document()
    assert set(document["paths"]) == set(calls.CALLS)
    for path, entry in calls.CALLS.items():
        operation = document["paths"][path][entry.method.lower()]
        assert operation["summary"].endswith((".", ":"))
        assert "default" in operation["responses"]
        assert ("requestBody" in operation) == (entry.body is not None)


def test_references_lead_to_schemas() -> None:
    document = openapi.document()
    text = json.dumps(document)
    for part in text.split('"$ref": "#/components/schemas/')[1:]:
        assert part.partition('"')[0] in document["components"]["schemas"]


def test_a_node_shows_the_description(node: Node) -> None:
    assert node.send("GET", "/openapi.json").body == openapi.document()
