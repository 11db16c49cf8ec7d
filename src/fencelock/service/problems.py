"""The answers to calls that did not do what they requested: problems of RFC 9457.

Every problem says whether the call may have taken effect, whether the same call can be sent again,
and what to do. Texts of the engine's errors do not go out, because they name hosts and users: they
are logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from ..errors import (
    FencelockError,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
    UsageError,
)

MEDIA_TYPE = "application/problem+json"
PREFIX = "urn:fencelock:problem:"
RETRY_IN_S = 1.0


class Kind(NamedTuple):
    """What all problems of one type have in common."""

    status: int
    title: str
    retry: bool
    """Whether the very same call may succeed when it is sent again."""
    advice: str


KINDS: dict[str, Kind] = {
    "malformed": Kind(400, "The request cannot be read", False, "Correct the request."),
    "unauthorized": Kind(
        401,
        "No valid token",
        False,
        "Send a token of this service as `Authorization: Bearer TOKEN`.",
    ),
    "forbidden": Kind(
        403,
        "This identity may not do that",
        False,
        "Ask whoever runs the service to allow this verb for this prefix.",
    ),
    "not-found": Kind(404, "There is no such call", False, "See /openapi.json for the calls."),
    "method-not-allowed": Kind(
        405, "The call has another method", False, "See the Allow header for the method."
    ),
    "slow-request": Kind(
        408, "The body did not arrive in time", True, "Send the whole request at once."
    ),
    "busy": Kind(409, "The lock is held by another", True, "Try again later, or wait longer."),
    "id-spent": Kind(
        409, "The lock of this id was given back", False, "Make a new id for a new attempt."
    ),
    "superseded": Kind(
        409,
        "A newer call with the same id has taken over",
        False,
        "Read the answer of the newer call.",
    ),
    "too-large": Kind(413, "The body is too large", False, "Send fewer entries in one call."),
    "uri-too-long": Kind(414, "The URL is too long", False, "Shorten the prefix."),
    "unsupported-media-type": Kind(
        415, "The body is not JSON", False, "Send `Content-Type: application/json`."
    ),
    "wrong-host": Kind(
        421,
        "This service does not answer to that host",
        False,
        "Use an address of the service; whoever runs it lists its names as `hosts`.",
    ),
    "invalid": Kind(422, "A value is not allowed", False, "Correct the value."),
    "unsupported-safety": Kind(
        422,
        "The engine does not promise this safety",
        False,
        "Ask for efficiency, or have the service run over an engine that promises correctness.",
    ),
    "quota": Kind(429, "A quota is used up", True, "Wait as Retry-After says."),
    "headers-too-large": Kind(431, "The headers are too large", False, "Send fewer headers."),
    "internal": Kind(
        500,
        "The service has failed",
        True,
        "Send the call again with the same id, and report the reference.",
    ),
    "unsupported": Kind(501, "The engine cannot do that", False, "Use another engine."),
    "engine-unavailable": Kind(
        503, "The engine cannot serve now; nothing happened", True, "Wait as Retry-After says."
    ),
    "draining": Kind(
        503,
        "This node is shutting down; nothing happened",
        True,
        "Send the call to another node, with the same id.",
    ),
    "overloaded": Kind(
        503, "Too many calls are under way; nothing happened", True, "Wait as Retry-After says."
    ),
    "audit-unwritable": Kind(
        503,
        "The audit file cannot be written, so nothing was revoked",
        True,
        "Make room for the audit file.",
    ),
    "outcome-unknown": Kind(
        504,
        "The engine did not answer: it may have happened",
        True,
        "Send the same call again with the same id: that resolves it. Else it ends with its ttl.",
    ),
}

UNCERTAIN = {"outcome-unknown", "internal"}
"""Only after these may the call have taken effect."""


class Problem(Exception):
    """Ends a call with a problem."""

    def __init__(
        self,
        kind: str,
        detail: str = "",
        *,
        retry_in: float | None = None,
        headers: Mapping[str, str] | None = None,
        **facts: object,
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.status = KINDS[kind].status
        self.detail = detail
        self.retry_in = retry_in
        self.headers = dict(headers or {})
        self.facts = facts

    def body(self) -> dict[str, object]:
        """Return the members of the problem, as RFC 9457 names them, and ours."""
        status, title, retry, advice = KINDS[self.kind]
        members: dict[str, object] = {
            "schema": 1,
            "type": PREFIX + self.kind,
            "title": title,
            "status": status,
            "detail": self.detail or title,
            "may_have_happened": self.kind in UNCERTAIN,
            "retry": retry,
            "advice": advice,
        }
        if self.retry_in is not None:
            members["retry_in"] = round(self.retry_in, 3)
        return {**members, **self.facts}


def of(error: FencelockError) -> Problem:
    """Return the problem with which an error of ours is answered."""
    if isinstance(error, UsageError):
        return Problem("invalid", str(error))
    if isinstance(error, OutcomeUnknown):
        return Problem("outcome-unknown", retry_in=RETRY_IN_S)
    if isinstance(error, Unsupported):
        return Problem("unsupported")
    if isinstance(error, Unavailable):
        return Problem("engine-unavailable", retry_in=RETRY_IN_S)
    return Problem("engine-unavailable", "The engine refuses this service", retry_in=RETRY_IN_S)


def broken(error: Exception) -> OutcomeUnknown | None:
    """Return our error for the error of a broken connection that an engine let through.

    Whether the request was sent before is not known. For any other error, which is a defect, return
    None.
    """
    if not _is_of_connection(error):
        return None
    return OutcomeUnknown(f"the connection of the engine broke ({error!r})")


def _is_of_connection(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        some = cast("ExceptionGroup[Exception]", error).exceptions
        return all(isinstance(one, FencelockError) or _is_of_connection(one) for one in some)
    return isinstance(error, (OSError, EOFError))
