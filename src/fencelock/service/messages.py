"""The JSON bodies of calls and answers.

All times are seconds, and all are durations: no moment crosses the wire. Unknown members are
refused, so that a misspelled option is not taken for its default.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..model import Holding, Role, Safety

WAIT_MAX_S = 55.0  # below the minute after which proxies cut a silent connection
BATCH_MAX = 1_000  # entries of one call

Scalar: TypeAlias = str | int | float | bool | None
Words: TypeAlias = dict[str, Scalar]
Name = Annotated[str, Meta(min_length=1, max_length=512, description="what is locked")]
Id = Annotated[
    str,
    Meta(
        min_length=22,
        max_length=64,
        pattern="^[A-Za-z0-9_-]*$",
        description="made by the client from 128 random bits before it sends: the idempotency key",
    ),
]
Seconds = Annotated[float, Meta(ge=0)]
Wait = Annotated[float, Meta(ge=0, le=WAIT_MAX_S)]
Fence = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Limit = Annotated[int, Meta(ge=1, le=100_000)]
Slot = Annotated[int, Meta(ge=0, lt=100_000)]
Reason = Annotated[str, Meta(min_length=1, max_length=512)]
Attempt = Annotated[
    int, Meta(ge=0, le=1_000, description="grows when an id whose lock was given back tries again")
]
Item = Annotated[str, Meta(max_length=512)]
Keep = Annotated[float, Meta(ge=0, le=10 * 366 * 86_400.0)]
Number = Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
Inbox = Annotated[str, Meta(min_length=1, max_length=64)]


class _Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a client sends."""


class Acquire(_Body):
    """Acquire one lock, perhaps after a wait."""

    name: Name
    id: Id | None = None
    ttl: float = 30.0
    wait: Wait = 0.0
    keep: bool = False
    meta: Words | None = None
    safety: Safety | None = None
    role: Role = "lock"
    attempt: Attempt = 0
    limit: Limit | None = None


class Want(_Body):
    """One lock that is waited for."""

    name: Name
    id: Id
    ttl: float = 30.0
    meta: Words | None = None
    role: Role = "lock"
    attempt: Attempt = 0
    limit: Limit | None = None


class WaitFor(_Body):
    """Wait for several locks in one poll."""

    inbox: Inbox
    wants: Annotated[list[Want], Meta(min_length=1, max_length=BATCH_MAX)]
    hold: Wait = WAIT_MAX_S


class Held(_Body):
    """A lease, as its holder knows it."""

    name: Name
    id: Id
    fence: Fence
    ttl: float = 30.0
    role: Role = "lock"
    attempt: Attempt = 0
    limit: Limit | None = None
    slot: Slot | None = None


class Renew(_Body):
    """Extend leases by their ttl from now."""

    leases: Annotated[list[Held], Meta(min_length=1, max_length=BATCH_MAX)]


class Release(_Body):
    """Give locks back."""

    leases: Annotated[list[Held], Meta(min_length=1, max_length=BATCH_MAX)]


class Unwanted(_Body):
    """A lock that is waited for no more."""

    name: Name
    id: Id
    role: Role = "lock"
    attempt: Attempt = 0
    limit: Limit | None = None


class Withdraw(_Body):
    """Take attempts back: leave the queue, and give the lock back if it was granted meanwhile."""

    wants: Annotated[list[Unwanted], Meta(min_length=1, max_length=BATCH_MAX)]


class Revoke(_Body):
    """Take a lock from its holder."""

    name: Name
    reason: Reason


class Inspect(_Body):
    """See who holds a lock and who waits for it."""

    name: Name


class Remember(_Body):
    """Write a number down for a name: an item's number only grows."""

    name: Name
    item: Item
    number: Number
    keep: Keep


class Recall(_Body):
    """Read the numbers of a name."""

    name: Name


class Forget(_Body):
    """Remember nothing for a name any more."""

    name: Name


class Announce(_Body):
    """Wake all observers of a name."""

    name: Name


class Observe(_Body):
    """Wait until a name may have changed."""

    name: Name
    seen: Annotated[str, Meta(max_length=64)] | None = None
    """``seen`` of the last answer; without it, the answer comes at once."""
    hold: Wait = WAIT_MAX_S


class _Answer(Struct, kw_only=True):
    """What the service sends; ``schema`` grows when a member changes its meaning."""

    schema: int = 1


class Lease(_Answer):
    """A granted lock. It holds until the call was sent + ``waited`` + ``ttl``, less the drift."""

    name: str
    id: str
    fence: int
    ttl: float
    waited: float
    """From when the ttl counts, in seconds after the call came: how long the service waited before
    it sent the engine the request that was granted. Negative where the engine's session, with which
    the lock ends, is older than the call."""
    renew_in: float
    role: Role = "lock"
    limit: int | None = None
    slot: int | None = None


class Queued(_Answer):
    """A place in the queue that is kept for a while: go on with /v1/wait, or acquire again."""

    name: str
    id: str
    position: int | None
    keeps: float
    holder: Words | None = None
    """The holder's meta, for identities that may observe the name."""


class InQueue(Struct):
    """One lock of a poll that was not granted yet."""

    name: str
    id: str
    position: int | None


class Waited(_Answer):
    """What became of a poll."""

    granted: list[Lease]
    waiting: list[InQueue]
    superseded: bool
    """A newer poll of the same inbox has taken over what was not granted."""
    retry_in: float = 0.0


class Renewal(Struct, omit_defaults=True):
    """What became of one renewal. The lock holds until the call was sent + ``waited`` + ``ttl``."""

    held: bool
    ttl: float | None = None
    waited: float | None = None
    """0 if it is left out. Negative where the engine's session, with which the lock ends, was last
    renewed before the call came."""
    loss: Literal["expired", "revoked", "session"] | None = None
    reason: str | None = None


class Renewed(_Answer):
    leases: list[Renewal]


class Freed(Struct):
    released: bool


class Released(_Answer):
    leases: list[Freed]


class Withdrawn(_Answer):
    withdrawn: int


class Holder(Struct):
    """A holder of a lock, without its id, which is a capability."""

    name: str
    fence: int
    ttl: float
    age: float
    remaining: float
    meta: Words
    role: Role = "lock"
    slot: int | None = None
    limit: int | None = None


def holder_of(holding: Holding) -> Holder:
    """Return what is shown of a holder."""
    name, fence, ttl, age, remaining, meta, role, slot, limit = holding
    return Holder(name, fence, ttl, age, remaining, dict(meta), role, slot, limit)


class Waiter(Struct):
    since: float
    """Seconds that it has waited."""
    meta: Words
    role: Role = "lock"


class Revoked(_Answer):
    revoked: bool
    holder: Holder | None


class Locks(_Answer):
    locks: list[Holder]
    next: str | None
    """The last name of this page, if there is another one: pass it as ``after``."""


class Inspection(_Answer):
    name: str
    holders: list[Holder]
    waiters: list[Waiter]
    limit: int | None


class Finding(Struct):
    """Something that the engine noticed about its surroundings."""

    level: Literal["ok", "note", "warning", "problem"]
    topic: str
    text: str
    advice: str


class Diagnosis(_Answer):
    findings: list[Finding]
    ago: Seconds
    """How long ago the engine was examined."""


EventKind: TypeAlias = Literal[
    "snapshot",
    "granted",
    "renewed",
    "changed",
    "released",
    "expired",
    "gone",
    "revoked",
    "waiting",
    "lost",
    "refused",
    "engine",
]


class Queue(Struct):
    """Who waits for a name, first come first."""

    name: str
    waiting: int
    waiters: list[Waiter]


class Event(Struct, kw_only=True, omit_defaults=True):
    """The data of one event; which members it has depends on its kind."""

    schema: int
    kind: EventKind
    ago: float
    """Seconds since it was seen; ages and times left are those of that moment."""
    name: str | None = None
    lock: Holder | None = None
    locks: list[Holder] | None = None
    queues: list[Queue] | None = None
    more: bool | None = None
    """Another part of the snapshot follows."""
    waiting: int | None = None
    waiters: list[Waiter] | None = None
    reason: str | None = None
    loss: str | None = None
    problem: str | None = None
    by: str | None = None
    up: bool | None = None
    away: float | None = None


class Remembered(_Answer):
    items: dict[str, int]


class Done(_Answer):
    """It was done."""


class Observed(_Answer):
    seen: str
    """Differs once the name may have changed: pass it with the next call."""


class About(_Answer):
    """The engine, its promises, the limits of this node, and who asks."""

    version: str
    engine: str
    traits: dict[str, Scalar]
    limits: dict[str, float]
    identity: str
    rights: list[dict[str, str | list[str]]]


class ProblemBody(_Answer):
    """A problem of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    may_have_happened: bool
    retry: bool
    advice: str
    retry_in: float | None = None
