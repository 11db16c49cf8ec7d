"""The description of the calls as OpenAPI 3.1, made from the table and the bodies."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from . import calls, messages
from .administration import EVENT_STREAM
from .problems import MEDIA_TYPE

VERSION = "1"
REF = "#/components/schemas/{name}"


@cache
def document() -> dict[str, Any]:
    """Return the whole description; it is the same for every node."""
    types: list[Any] = [messages.ProblemBody]
    for entry in calls.CALLS.values():
        types += [*([entry.body] if entry.body else []), *entry.answers.values()]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    refs = dict(zip(types, schemas, strict=True))
    paths = {path: {entry.method.lower(): _operation(path, entry, refs)} for path, entry in _all()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fencelock service",
            "version": VERSION,
            "description": "Locks with fences over HTTP. All times are durations in seconds.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _all() -> list[tuple[str, calls.Entry]]:
    return sorted(calls.CALLS.items())


def _operation(path: str, entry: calls.Entry, refs: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": path.rpartition("/")[2],
        "summary": (entry.handler.__doc__ or "").partition("\n")[0],
        "responses": {
            **{
                str(status): _content(entry.media, refs[body], "done")
                for status, body in entry.answers.items()
            },
            "default": _content(MEDIA_TYPE, refs[messages.ProblemBody], "a problem of RFC 9457"),
        },
    }
    if entry.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": refs[entry.body]}},
        }
    if entry.query:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in entry.query
        ]
    return operation


def _content(media: str, schema: Any, description: str) -> dict[str, Any]:
    if media == EVENT_STREAM:  # OpenAPI 3.1 has no words for the events of a stream
        what = str(schema["$ref"]).rpartition("/")[2]
        return {
            "description": f"a stream; the data of each event is of {what}",
            "content": {media: {}},
        }
    return {"description": description, "content": {media: {"schema": schema}}}


if __name__ == "__main__":
    import json
    import sys

    sys.stdout.write(json.dumps(document(), indent=1) + "\n")
