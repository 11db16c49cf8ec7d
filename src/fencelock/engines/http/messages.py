"""The bodies of requests and replies, as ``docs/openapi.json`` describes them."""

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
DRIFT = 0.01  # of a wait: how far our clock and the node's may drift apart, as over a lease
BATCH_MAX = 1000  # entries of one call
LOOK_S = 60.0  # for waiters that are in no poll
LOSSES: dict[str, Loss] = {"expired": "expired", "revoked": "revoked", "session": "session"}
ANONYMOUS = "anonymous"  # the identity of all clients if the service has no others


def id_of(owner: str) -> str:
    """Return the service's id of an owner: the owner itself if that is valid, else its hash."""
    return owner if ID.fullmatch(owner) else hashlib.sha256(owner.encode()).hexdigest()


class Bodies:
    """Encodes and decodes the bodies of one client, which add its prefix to all names."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def name(self, name: str) -> dict[str, object]:
        """Encode a name alone."""
        return {"name": self._prefix + name}

    def unwanted(
        self, name: str, owner: str, share: Share | None, attempt: int
    ) -> dict[str, object]:
        """Encode an attempt for ``withdraw``."""
        body: dict[str, object] = {"name": self._prefix + name, "id": id_of(owner)}
        if share is not None:
            body["role"] = role_of(share)
            if share.kind == "semaphore":
                body["limit"] = share.limit
        if attempt:
            body["attempt"] = attempt
        return body

    def want(self, request: Request, attempt: int) -> dict[str, object]:
        """Encode a request for ``wait``."""
        body = self.unwanted(request.name, request.owner, request.share, attempt)
        return {**body, "ttl": request.ttl, "meta": json.loads(request.meta)}

    def acquire(self, request: Request, attempt: int, keep: bool) -> dict[str, object]:
        """Encode a request for ``acquire``; with ``keep`` it joins the queue of a held lock."""
        body = self.want(request, attempt)
        return {**body, "keep": True} if keep else body

    def held(self, grant: Grant, attempt: int = 0) -> dict[str, object]:
        """Encode a grant for ``renew`` and ``release``."""
        body = self.unwanted(grant.name, grant.owner, grant.share, attempt)
        if grant.share is not None and grant.share.slot is not None:
            body["slot"] = grant.share.slot
        return {**body, "fence": grant.fence, "ttl": grant.ttl}

    def page(self, prefix: str, after: str | None) -> dict[str, str]:
        """Return the query for a page of holders; ``after`` is the ``next`` of the page before."""
        query = {"prefix": self._prefix + prefix}
        return query if after is None else {**query, "after": after}

    def read_page(self, answer: dict[str, Any]) -> tuple[list[Holding], str | None]:
        """Decode a page of holders, and the ``after`` of the next page."""
        after = answer["next"]
        return [self._holding(one) for one in answer["locks"]], None if after is None else str(
            after
        )

    def _holding(self, answer: dict[str, Any]) -> Holding:
        """Decode a holder."""
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
        """Decode the holders and waiters of a name."""
        waiters = [
            Waiting(float(one["since"]), _meta(one), cast("Role", str(one.get("role", "lock"))))
            for one in answer["waiters"]
        ]
        name = str(answer["name"]).removeprefix(self._prefix)
        holders = [self._holding(one) for one in answer["holders"]]
        return State(name, tuple(holders), tuple(waiters), answer.get("limit"))


def read_lease(answer: dict[str, Any], request: Request, sent_at: float, now: float) -> Grant:
    """Decode a lease. Its ttl counts from when the request was sent, plus the service's wait.

    A reported wait that is longer than the time since then is ignored. The engine of the service
    may have cut the ttl.
    """
    waited = float(answer["waited"])
    since = sent_at + waited - abs(waited) * DRIFT
    share = request.share
    if share is not None and share.kind == "semaphore":
        share = share._replace(slot=int(answer["slot"]))
    asked_at = since if sent_at <= since <= now else sent_at
    fence, ttl = check_fence(answer["fence"]), min(request.ttl, float(answer["ttl"]))
    grant = granted(request.name, request.owner, fence, ttl, asked_at, share)
    return _ends_earlier(grant, sent_at - since)


def read_position(answer: dict[str, Any]) -> Busy:
    """Decode a position in the queue."""
    return read_busy(answer, True)


def read_busy(answer: Mapping[str, Any], queued: bool) -> Busy:
    """Decode a refusal, with the position and the meta of the holder if they are known."""
    position, holder = answer.get("position"), answer.get("holder")
    words = json.dumps(holder) if isinstance(holder, dict) else ""
    return refused(LOOK_S, position if isinstance(position, int) else None, queued, words)


def read_renewals(wished: Sequence[Grant], answer: dict[str, Any]) -> list[Grant | Gone]:
    """Decode the results of renewals; ``wished`` are the grants as if each lasted its whole ttl."""
    return [
        _renewed(grant, one)
        if one["held"] is True
        else Gone(LOSSES[one["loss"]], str(one["reason"]))
        for grant, one in zip(wished, answer["leases"], strict=True)
    ]


def _renewed(grant: Grant, answer: dict[str, Any]) -> Grant:
    waited, ttl = float(answer.get("waited", 0.0)), float(answer["ttl"])
    if waited >= 0 and ttl >= grant.ttl:
        return grant
    name, owner, fence, asked_ttl, sent_at, _, share = grant
    grant = granted(name, owner, fence, min(asked_ttl, ttl), sent_at, share)
    return _ends_earlier(grant, -waited * (1 + DRIFT))


def _ends_earlier(grant: Grant, seconds: float) -> Grant:
    """Return a grant whose ttl was counted from so many seconds before it was asked for."""
    return grant._replace(valid_until=grant.valid_until - seconds) if seconds > 0 else grant


def read_releases(count: int, answer: dict[str, Any]) -> list[bool]:
    """Decode the results of ``count`` releases."""
    freed = [one["released"] is True for one in answer["leases"]]
    if len(freed) != count:
        raise ValueError("another number of leases")
    return freed


def read_done(answer: dict[str, Any]) -> None:
    """Decode a reply without content."""


def read_items(answer: dict[str, Any]) -> dict[str, int]:
    """Decode the numbers that are remembered for a name."""
    return {str(item): int(number) for item, number in answer["items"].items()}


def _meta(answer: dict[str, Any]) -> Meta:
    """Decode the meta of a holder, without the identity ``anonymous``."""
    words: dict[str, Any] = dict(answer["meta"])
    if words.get("identity") == ANONYMOUS:
        del words["identity"]
    return words


class About(NamedTuple):
    """What a service reports about itself."""

    engine: str
    version: str
    identity: str
    traits: Traits
    """Those of its engine, which all clients of the service share."""
    scope: str
    """The scope of its engine."""
    session_bound: bool
    first_holds: bool
    verbs: frozenset[str]
    """The verbs that this identity may use, for some name at least."""


def _longest(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) and found > 0 else None


def read_about(answer: dict[str, Any]) -> About:
    """What a service reports about itself."""
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
