"""Map the error replies of nodes: one table, from the type of a problem to an error.

A problem of the service says itself whether the call may have taken effect. A reply that is not the
service's, such as the error page of a proxy, proves nothing.
"""

from __future__ import annotations

import json
from typing import Any, cast

from ...errors import (
    Denied,
    EngineError,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
    UsageError,
)
from ...model import shown
from .._http.wire.http1 import Response

PREFIX = "urn:fencelock:problem:"
TEXT_MAX = 300

_TABLE: dict[str, tuple[type[EngineError], str]] = {
    "unauthorized": (
        Denied,
        "the service asks for a valid token: give token=, token_file= or set FENCELOCK_TOKEN",
    ),
    "forbidden": (
        Denied,
        "this identity lacks the right: allow it this verb for a prefix of the name",
    ),
    "wrong-host": (
        Misconfigured,
        "the service does not answer to this host: list it as hosts in its file",
    ),
    "quota": (
        Unavailable,
        "a quota of this identity is used up: call less often or hold less, or have it raised",
    ),
    "unsupported-safety": (Unsupported, "the engine of the service does not promise this safety"),
    "unsupported": (Unsupported, "the engine of the service cannot do that"),
    "engine-unavailable": (Unavailable, "the engine of the service cannot serve now"),
    "draining": (Unavailable, "this node is shutting down"),
    "overloaded": (Unavailable, "this node has too many calls under way"),
    "slow-request": (Unavailable, "the request took too long to arrive"),
    "audit-unwritable": (Unavailable, "the audit file of the service cannot be written"),
    "id-spent": (Unavailable, "this attempt was taken back before: acquire again"),
    "superseded": (Unavailable, "another call of the same attempt has taken over"),
    "not-found": (
        Misconfigured,
        "the service has no such call: it is older than this client, or the path is wrong",
    ),
    "method-not-allowed": (Misconfigured, "the service is not of the version of this client"),
}


def problem_of(response: Response) -> tuple[str, dict[str, Any]]:
    """Return the type and the members of a problem; an empty type if it is not the service's."""
    found = body_of(response)
    kind = str(found.get("type", ""))
    return (kind.removeprefix(PREFIX), found) if kind.startswith(PREFIX) else ("", found)


def body_of(response: Response) -> dict[str, Any]:
    """Return the members of a JSON object; empty for any other body."""
    try:
        found: object = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def mapped(response: Response, where: str) -> FencelockError:
    """Return our error for a reply that is not a success."""
    kind, problem = problem_of(response)
    if not kind:
        return _foreign(response, where)
    detail = shown(str(problem.get("detail", "")))[:TEXT_MAX]
    if problem.get("may_have_happened", True):
        return OutcomeUnknown(
            f"{where}: the service does not know what became of the call ({detail}): it may have "
            "taken effect"
        )
    if kind == "invalid":
        return UsageError(detail)
    error, advice = _TABLE.get(
        kind, (Misconfigured, "the service and this client seem to be of different versions")
    )
    return error(f"{where}: {advice} ({detail}); nothing happened")


def _foreign(response: Response, where: str) -> FencelockError:
    if response.status < 500:
        return not_a_service(f"{where} ({response.status})")
    return OutcomeUnknown(
        f"{where} answered {response.status}, and not as a fencelock service does: perhaps a proxy "
        "in between; the call may have taken effect"
    )


def unreadable(where: str) -> OutcomeUnknown:
    """Return the error for a success that cannot be decoded."""
    return OutcomeUnknown(
        f"{where} answered what this client cannot read: it may have taken effect. See whether "
        "the URL leads to `fencelock serve`"
    )


def not_a_service(where: str) -> Misconfigured:
    """Return the error for a server that is not the lock service."""
    return Misconfigured(
        f"{where} does not answer as a fencelock service does: see whether the URL leads to "
        "`fencelock serve`"
    )
