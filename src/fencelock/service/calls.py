"""The calls of the service: which path does what, with which body, and which answers.

From here down nothing knows HTTP: a call has a path, a method, headers and bytes, and is answered
with an Answer or a Problem.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ..errors import FencelockError
from . import administration as admin
from . import handlers, messages, problems, recipes
from .access import Identity
from .call import Answer, Call
from .handlers import Service
from .problems import Problem

AUDITED = {"busy", "forbidden", "id-spent", "quota", "unsupported-safety"}
"""Refusals that are written to the audit."""


class Entry(NamedTuple):
    """One row of the table."""

    method: str
    handler: Callable[[Service, Call, Any], Awaitable[Answer]]
    body: type[msgspec.Struct] | None
    answers: Mapping[int, type[msgspec.Struct]]
    waits: bool = False
    """The call may wait for long: its client is watched meanwhile."""
    query: tuple[str, ...] = ()
    media: str = "application/json"


CALLS: dict[str, Entry] = {
    "/v1/acquire": Entry(
        "POST",
        handlers.acquire,
        messages.Acquire,
        {200: messages.Lease, 202: messages.Queued},
        waits=True,
    ),
    "/v1/wait": Entry("POST", handlers.wait, messages.WaitFor, {200: messages.Waited}, waits=True),
    "/v1/renew": Entry("POST", handlers.renew, messages.Renew, {200: messages.Renewed}),
    "/v1/release": Entry("POST", handlers.release, messages.Release, {200: messages.Released}),
    "/v1/withdraw": Entry("POST", handlers.withdraw, messages.Withdraw, {200: messages.Withdrawn}),
    "/v1/revoke": Entry("POST", admin.revoke, messages.Revoke, {200: messages.Revoked}),
    "/v1/inspect": Entry("POST", admin.inspect, messages.Inspect, {200: messages.Inspection}),
    "/v1/remember": Entry("POST", recipes.remember, messages.Remember, {200: messages.Done}),
    "/v1/recall": Entry("POST", recipes.recall, messages.Recall, {200: messages.Remembered}),
    "/v1/forget": Entry("POST", recipes.forget, messages.Forget, {200: messages.Done}),
    "/v1/announce": Entry("POST", recipes.announce, messages.Announce, {200: messages.Done}),
    "/v1/observe": Entry(
        "POST", recipes.observe, messages.Observe, {200: messages.Observed}, waits=True
    ),
    "/v1/locks": Entry(
        "GET", admin.locks, None, {200: messages.Locks}, query=("prefix", "after", "limit")
    ),
    "/v1/events": Entry(
        "GET",
        admin.events,
        None,
        {200: messages.Event},
        waits=True,
        query=("prefix", "queue"),
        media=admin.EVENT_STREAM,
    ),
    "/v1/doctor": Entry("GET", admin.doctor, None, {200: messages.Diagnosis}),
    "/v1/about": Entry("GET", admin.about, None, {200: messages.About}),
}

PAGES = {"/healthz", "/metrics", "/openapi.json", "/readyz"}
"""The paths that are served beside the calls."""

_DECODERS = {entry.body: msgspec.json.Decoder(entry.body) for entry in CALLS.values() if entry.body}


def label(path: str) -> str:
    """Return the label of a path in metrics: one for all that are not served, however many."""
    return path if path in CALLS or path in PAGES else "other"


def find(path: str, method: str) -> Entry:
    """Return the entry of a path; raise the problem that there is none, or has another method."""
    entry = CALLS.get(path)
    if entry is None:
        raise Problem("not-found")
    if method != entry.method:
        raise Problem("method-not-allowed", headers={"Allow": entry.method})
    return entry


def read(entry: Entry, data: bytes) -> msgspec.Struct | None:
    """Decode the body of a call; what is not JSON is malformed, what does not fit is invalid."""
    if entry.body is None:
        if data:
            raise Problem("malformed", "This call has no body")
        return None
    try:
        body: msgspec.Struct = _DECODERS[entry.body].decode(data)
    except msgspec.ValidationError as error:
        raise Problem("invalid", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem("malformed", f"The body is not JSON: {error}"[:300]) from None
    except RecursionError:
        raise Problem("malformed", "The body is nested too deeply") from None
    return body


async def answer(service: Service, entry: Entry, call: Call, data: bytes) -> Answer:
    """Answer one call of a known identity."""
    node, identity = service.node, call.identity
    body: msgspec.Struct | None = None
    try:
        if node.draining:
            raise Problem("draining", retry_in=0.0)
        node.access.count_call(identity, node.world.now())
        body = read(entry, data)
        return await entry.handler(service, call, body)
    except Problem as problem:
        if problem.kind in AUDITED:
            _audit(service, identity, call, problem, body)
        raise
    except Exception as error:
        known = error if isinstance(error, FencelockError) else problems.broken(error)
        if known is None:
            raise
        told = problems.of(known)
        if told.kind != "invalid":
            node.log(f"{told.kind}: {known}")
        raise told from error


def _audit(
    service: Service,
    identity: Identity,
    call: Call,
    problem: Problem,
    body: msgspec.Struct | None,
) -> None:
    facts: dict[str, object] = {"problem": problem.kind}
    if body is not None and isinstance(name := getattr(body, "name", None), str):
        facts["name"] = name
    service.node.auditor.write("refused", identity.name, call.peer, facts)
