"""The bodies of calls and answers, as ``docs/openapi.json`` describes them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ...model import (
    Busy,
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
    check_fence,
    granted,
    refused,
    role_of,
)

ID = re.compile(r"[A-Za-z0-9_-]{22,64}")
DRIFT = 0.01  # of a wait: how far our clock and the node's may run apart, as over a lease
BATCH_MAX = 1000  # entries of one call
LOOK_S = 60.0  # for those whom no poll names
LOSSES: dict[str, Loss] = {"expired": "expired", "revoked": "revoked", "session": "session"}
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

    def read_page(self, answer: dict[str, Any]) -> tuple[list[Holding], str | None]:
        """A page of holders, and where the next begins."""
        after = answer["next"]
        return [self._holding(one) for one in answer["locks"]], None if after is None else str(
            after
        )

    def _holding(self, answer: dict[str, Any]) -> Holding:
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

    def read_state(self, answer: dict[str, Any]) -> State:
        """Who holds a name, and who waits."""
        waiters = [
            Waiting(float(one["since"]), _meta(one), cast("Role", str(one.get("role", "lock"))))
            for one in answer["waiters"]
        ]
        name = str(answer["name"]).removeprefix(self._prefix)
        holders = [self._holding(one) for one in answer["holders"]]
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
    fence = check_fence(answer["fence"])
    return granted(request.name, request.owner, fence, request.ttl, asked_at, share)


def read_place(answer: dict[str, Any]) -> Busy:
    """A place in the queue."""
    return read_busy(answer, True)


def read_busy(answer: Mapping[str, Any], queued: bool) -> Busy:
    """A definite no, with what is known of who holds the lock."""
    position, holder = answer.get("position"), answer.get("holder")
    words = json.dumps(holder) if isinstance(holder, dict) else ""
    return refused(LOOK_S, position if isinstance(position, int) else None, queued, words)


def read_renewals(wished: Sequence[Grant], answer: dict[str, Any]) -> list[Grant | Gone]:
    """What became of renewals."""
    return [
        grant if one["held"] is True else Gone(LOSSES[one["loss"]], str(one["reason"]))
        for grant, one in zip(wished, answer["leases"], strict=True)
    ]


def read_releases(count: int, answer: dict[str, Any]) -> list[bool]:
    """What became of so many releases."""
    freed = [one["released"] is True for one in answer["leases"]]
    if len(freed) != count:
        raise ValueError("another number of leases")
    return freed


def read_done(answer: dict[str, Any]) -> None:
    """Nothing but that it was done."""


def read_items(answer: dict[str, Any]) -> dict[str, int]:
    """What is remembered for a name."""
    return {str(item): int(number) for item, number in answer["items"].items()}


def _meta(answer: dict[str, Any]) -> Meta:
    """The words of a holder; that nobody is known by name here is not one of them."""
    words: dict[str, Any] = dict(answer["meta"])
    if words.get("identity") == ANONYMOUS:
        del words["identity"]
    return words


class About(NamedTuple):
    """What a service says of itself."""

    engine: str
    version: str
    identity: str
    traits: Traits
    """Of its engine; everybody who calls the service meets in it."""
    scope: str
    """Of its engine."""
    session_bound: bool
    first_holds: bool
    verbs: frozenset[str]
    """What this identity may do, whatever the name."""


def _longest(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) and found > 0 else None


def read_about(answer: dict[str, Any]) -> About:
    """What a service says of itself."""
    found = answer["traits"]
    safety: Safety = "correctness" if found["safety"] == "correctness" else "efficiency"
    flags = ("fence", "fifo", "push", "durable", "revoke", "scan", "portable", "shared")
    traits = Traits(
        safety,
        "network",
        **{flag: found.get(flag) is True for flag in flags},
        remembers=found.get("remembers") is True,
        advice=str(found.get("advice", "")),
        ttl_max=_longest(found.get("ttl_max")),
    )
    return About(
        str(answer["engine"]),
        str(answer["version"]),
        str(answer["identity"]),
        traits,
        str(found["scope"]),
        found.get("session_bound") is True,
        found.get("first_holds") is True,
        frozenset(str(verb) for right in answer["rights"] for verb in right["verbs"]),
    )
