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


class Bodies:
    """What is sent and answered of names, which all begin with a prefix on the way."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def name(self, name: str) -> dict[str, object]:
        """A name, and no more."""
        return {"name": self._prefix + name}

    def unwanted(
        self, name: str, owner: str, share: Share | None, attempt: int
    ) -> dict[str, object]:
        """An attempt, as it is taken back."""
        body: dict[str, object] = {"name": self._prefix + name, "id": id_of(owner)}
        if share is not None:
            body["role"] = role_of(share)
            if share.kind == "semaphore":
                body["limit"] = share.limit
        if attempt:
            body["attempt"] = attempt
        return body

    def want(self, request: Request, attempt: int) -> dict[str, object]:
        """A request, as it is waited for."""
        body = self.unwanted(request.name, request.owner, request.share, attempt)
        return {**body, "ttl": request.ttl, "meta": json.loads(request.meta)}

    def acquire(self, request: Request, attempt: int, keep: bool) -> dict[str, object]:
        """A request, as it is sent; with ``keep`` it joins the queue of a lock that is held."""
        body = self.want(request, attempt)
        return {**body, "keep": True} if keep else body

    def held(self, grant: Grant, attempt: int = 0) -> dict[str, object]:
        """A grant, as its holder claims it."""
        body = self.unwanted(grant.name, grant.owner, grant.share, attempt)
        if grant.share is not None and grant.share.slot is not None:
            body["slot"] = grant.share.slot
        return {**body, "fence": grant.fence, "ttl": grant.ttl}

    def page(self, prefix: str, after: str | None) -> dict[str, str]:
        """What asks for a page of holders; ``after`` is what the page before said."""
        query = {"prefix": self._prefix + prefix}
        return query if after is None else {**query, "after": after}

    def holding(self, answer: dict[str, Any]) -> Holding:
        """A holder."""
        return Holding(
            str(answer["name"]).removeprefix(self._prefix),
            int(answer["fence"]),
            float(answer["ttl"]),
            float(answer["age"]),
            float(answer["remaining"]),
            _meta(answer),
            cast("Role", str(answer.get("role", "lock"))),
            answer.get("slot"),
            answer.get("limit"),
        )

    def state(self, answer: dict[str, Any]) -> State:
        """Who holds a name, and who waits."""
        waiters = [
            Waiting(float(one["since"]), _meta(one), cast("Role", str(one.get("role", "lock"))))
            for one in answer["waiters"]
        ]
        name = str(answer["name"]).removeprefix(self._prefix)
        holders = [self.holding(one) for one in answer["holders"]]
        return State(name, tuple(holders), tuple(waiters), answer.get("limit"))


def read_lease(answer: dict[str, Any], request: Request, sent_at: float, now: float) -> Grant:
    """The grant of a lease. It holds since the service waited, counted from when we asked.

    A wait that is said to be longer than ours was tells nothing.
    """
    waited = float(answer["waited"])
    since = sent_at + waited * (1 - DRIFT)
    share = request.share
    if share is not None and share.kind == "semaphore":
        share = share._replace(slot=int(answer["slot"]))
    asked_at = since if waited >= 0 and since <= now else sent_at
    return granted(request.name, request.owner, int(answer["fence"]), request.ttl, asked_at, share)


def read_renewal(answer: dict[str, Any], renewed: Grant) -> Grant | Gone:
    """What became of a renewal."""
    if answer["held"] is True:
        return renewed
    return Gone(cast("Loss", str(answer["loss"])), str(answer["reason"]))


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
