"""Text for the messages between a client and a node of the lock service."""

from __future__ import annotations

import json
from typing import Any

from ..sim.service import Sent

PATH = "/v1/"
QUEUED, PROBLEM = 202, 400


def describe(what: Any) -> str:
    """Describe a call by its verb and the names that it is about, or an answer by its outcome."""
    if isinstance(what, Sent):
        name = what.target.partition("?")[0].removeprefix(PATH)
        return " ".join([name, *_names(json.loads(what.body or b"{}"))])
    return _outcome(what.status, json.loads(what.body or b"{}"))


def _names(body: dict[str, Any]) -> list[str]:
    """Return the names that a call is about, each once."""
    found = [body, *body.get("wants", []), *body.get("leases", [])]
    return list(dict.fromkeys(str(one["name"]) for one in found if "name" in one))


def _outcome(status: int, body: dict[str, Any]) -> str:
    if status >= PROBLEM:
        return f"{status} {body.get('title', '')}".strip()
    if status == QUEUED:
        return "queued"
    if "granted" in body:  # the answer to a poll
        return "granted" if body["granted"] else "nothing yet"
    return "granted" if "fence" in body else "done"
