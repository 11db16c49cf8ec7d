"""The bodies of calls and answers, as ``docs/openapi.json`` describes them."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

from ...model import (
    Gone,
    Grant,
    Holding,
    Loss,
    Meta,
    Request,
    Role,
    Safety,
    Share,
    State,
    Traits,
    Waiting,
    granted,
    role_of,
)

ID = re.compile(r"[A-Za-z0-9_-]{22,64}")
DRIFT = 0.01  # of a wait: how far our clock and the node's may run apart, as over a lease
BATCH_MAX = 1000  # entries of one call
ANONYMOUS = "anonymous"  # the identity of everybody, where the service has no others


def id_of(owner: str) -> str:
    """The id by which the service knows an owner: the owner itself, where that can be one."""
    return owner if ID.fullmatch(owner) else hashlib.sha256(owner.encode()).hexdigest()


def _shared(share: Share | None) -> dict[str, object]:
    """The members that say how much of a name is meant."""
    if share is None:
        return {}
    if share.kind == "rwlock":
        return {"role": role_of(share)}
    members: dict[str, object] = {"role": "semaphore", "limit": share.limit}
    return members


def unwanted(name: str, owner: str, share: Share | None, attempt: int) -> dict[str, object]:
    """An attempt, as it is taken back."""
    body: dict[str, object] = {"name": name, "id": id_of(owner), **_shared(share)}
    return {**body, "attempt": attempt} if attempt else body


def want(request: Request, attempt: int) -> dict[str, object]:
    """A request, as it is waited for."""
    body = unwanted(request.name, request.owner, request.share, attempt)
    return {**body, "ttl": request.ttl, "meta": json.loads(request.meta)}


def acquire(request: Request, attempt: int, keep: bool) -> dict[str, object]:
    """A request, as it is sent; with ``keep`` it joins the queue of a lock that is held."""
    body = want(request, attempt)
    return {**body, "keep": True} if keep else body


def held(grant: Grant, attempt: int = 0) -> dict[str, object]:
    """A grant, as its holder claims it."""
    body = unwanted(grant.name, grant.owner, grant.share, attempt)
    if grant.share is not None and grant.share.slot is not None:
        body["slot"] = grant.share.slot
    return {**body, "fence": grant.fence, "ttl": grant.ttl}


def read_lease(answer: dict[str, Any], request: Request, sent_at: float, now: float) -> Grant:
    """The grant of a lease. It holds since the service waited, counted from when we asked.

    A wait that is said to be longer than ours was tells nothing.
    """
    waited = float(answer["waited"])
    since = sent_at + waited * (1 - DRIFT)
    share = request.share
    if share is not None and share.kind == "semaphore":
        share = share._replace(slot=int(answer["slot"]))
    asked_at = since if 0 <= waited and since <= now else sent_at
    return granted(request.name, request.owner, int(answer["fence"]), request.ttl, asked_at, share)


def read_renewal(answer: dict[str, Any], renewed: Grant) -> Grant | Gone:
    """What became of a renewal."""
    if answer["held"] is True:
        return renewed
    return Gone(cast("Loss", str(answer["loss"])), str(answer["reason"]))


def read_holding(answer: dict[str, Any]) -> Holding:
    """A holder."""
    return Holding(
        str(answer["name"]),
        int(answer["fence"]),
        float(answer["ttl"]),
        float(answer["age"]),
        float(answer["remaining"]),
        _meta(answer),
        cast("Role", str(answer.get("role", "lock"))),
        answer.get("slot"),
        answer.get("limit"),
    )


def read_state(answer: dict[str, Any]) -> State:
    """Who holds a name, and who waits."""
    waiters = [
        Waiting(float(one["since"]), _meta(one), cast("Role", str(one.get("role", "lock"))))
        for one in answer["waiters"]
    ]
    holders = [read_holding(one) for one in answer["holders"]]
    return State(str(answer["name"]), tuple(holders), tuple(waiters), answer.get("limit"))


def _meta(answer: dict[str, Any]) -> Meta:
    """The words of a holder; that nobody is known by name here is not one of them."""
    words: dict[str, Any] = dict(answer["meta"])
    if words.get("identity") == ANONYMOUS:
        del words["identity"]
    return words


def read_traits(answer: dict[str, Any]) -> Traits:
    """What the engine of the service promises. Everybody who calls the service meets in it."""
    found = answer["traits"]
    safety: Safety = "correctness" if found["safety"] == "correctness" else "efficiency"
    flags = ("fence", "fifo", "push", "durable", "revoke", "scan", "portable", "shared")
    return Traits(
        safety,
        "network",
        **{flag: found.get(flag) is True for flag in flags},
        remembers=found.get("remembers") is True,
        advice=str(found.get("advice", "")),
    )
