"""The refusals of the middleware, as problem details (RFC 9457)."""

from __future__ import annotations

import json
import logging
from typing import Any, NamedTuple

from ...errors import EngineError, FencelockError, OutcomeUnknown, StaleFence, UsageError

TYPE = "urn:fencelock:problem:"
STALE = f"{TYPE}stale-fence"
MEDIA_TYPE = "application/problem+json"

_log = logging.getLogger("fencelock.guards.http")

_REASONS = {
    400: "Bad Request",
    403: "Forbidden",
    412: "Precondition Failed",
    428: "Precondition Required",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Problem(NamedTuple):
    """The response of one refusal. Unless it says otherwise, the application was not called."""

    status: int
    body: bytes
    retry_after_s: int | None = None

    @property
    def status_line(self) -> str:
        """Status and reason, for WSGI."""
        return f"{self.status} {_REASONS[self.status]}"

    def headers(self) -> list[tuple[str, str]]:
        found = [
            ("Content-Type", MEDIA_TYPE),
            ("Content-Length", str(len(self.body))),
            ("Cache-Control", "no-store"),  # the same request may well be accepted later
        ]
        if self.retry_after_s is not None:
            found.append(("Retry-After", str(self.retry_after_s)))
        return found


def missing(header: str) -> Problem:
    return _problem(
        428,
        "fence-required",
        "A fence is required",
        f"Acquire the lock of this resource and send its fence in the header {header}.",
    )


def forbidden() -> Problem:
    return _problem(
        403,
        "not-authorized",
        "Not authorized",
        "The sender may not touch this resource. Nothing was done.",
    )


def malformed(detail: str) -> Problem:
    return _problem(400, "malformed-fence", "The fence cannot be read", detail)


def readerless() -> Problem:
    return malformed(
        "The marks of this server do not tell readers from writers, so that no fence of a read "
        "lock can be judged."
    )


def stale(error: StaleFence) -> Problem:
    return _problem(
        412,
        "stale-fence",
        "The fence is stale",
        "Another holder has taken over. Nothing was done: stop, and do not retry with this lease.",
        offered=error.offered,
        highest=error.highest,
        seen=error.seen,
    )


def overtaken(error: StaleFence) -> Problem:
    """Return the refusal after another process accepted a higher fence during the call."""
    return _problem(
        412,
        "stale-fence",
        "The fence is stale",
        "Another holder has taken over while this request was at work, so that it may have taken "
        "effect: stop, and do not retry with this lease.",
        offered=error.offered,
        highest=error.highest,
        seen=error.seen,
    )


def unmarked() -> Problem:
    """Return the error for a request that the application accepted without a raised mark."""
    return _problem(
        500,
        "mark-not-raised",
        "The guard could not shut older holders out",
        "The request was accepted and has taken effect, but the store of the marks did not confirm "
        "the fence, so older holders may be let in. Send it again only if that does no harm.",
    )


def unreachable() -> Problem:
    """Return the refusal while the marks cannot be reached; the reason is only logged."""
    return _problem(
        503,
        "guard-unavailable",
        "The guard cannot judge now",
        "The store of the marks cannot be reached. Nothing was done: try again later.",
        retry_after_s=1,
    )


def busy() -> Problem:
    return _problem(
        503,
        "resource-busy",
        "The resource is busy",
        "An earlier request for this resource is still at work. Nothing was done: try again later.",
        retry_after_s=1,
    )


def not_admitted(error: FencelockError, name: str) -> Problem:
    """Return the response to a request whose fence was refused or could not be checked."""
    if isinstance(error, StaleFence):
        return stale(error)
    if isinstance(error, (EngineError, OutcomeUnknown)):
        _log.error("a request for %r was refused, the marks cannot be reached: %s", name, error)
        return unreachable()
    if isinstance(error, UsageError):
        return malformed("The marks of this server cannot be kept under such a name.")
    raise error


def not_raised(error: FencelockError, name: str, fence: int) -> Problem:
    """Return the response to an accepted request whose mark could not be raised."""
    if isinstance(error, StaleFence):
        return overtaken(error)
    _log.error("fence %d of %r was accepted, but its mark is not raised: %s", fence, name, error)
    return unmarked()


def _problem(
    status: int,
    kind: str,
    title: str,
    detail: str,
    *,
    retry_after_s: int | None = None,
    **more: Any,
) -> Problem:
    document = {"type": TYPE + kind, "title": title, "status": status, "detail": detail, **more}
    return Problem(status, json.dumps(document).encode(), retry_after_s)
