"""The nouns of fencelock as immutable values.

Nothing here does I/O, knows an engine or reads a clock. Records are named tuples because they are
made on the hot path and kept by the ten thousand. All durations are seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from .errors import Expired, LeaseLost, Revoked, SessionEnded, UsageError

FENCE_MAX = 2**53 - 1  # what a JSON number and a double can carry exactly
DRIFT, DRIFT_S = 0.01, 0.002  # of a ttl, and a moment: see drift()
ROUNDING_S = 1e-6  # a smaller difference is that of sums of floats

Scalar: TypeAlias = str | int | float | bool | None
Meta: TypeAlias = Mapping[str, Scalar]
Safety: TypeAlias = Literal["efficiency", "correctness"]
Loss: TypeAlias = Literal["expired", "revoked", "session"]
Role: TypeAlias = Literal["lock", "semaphore", "read", "write"]
Kind: TypeAlias = Literal["mutex", "semaphore", "rwlock"]

KINDS: tuple[Kind, ...] = ("mutex", "semaphore", "rwlock")  # in the order in which they are listed
RECIPE, ELECTION = "recipe", "election"  # the word of meta by which an election's lock is known

LOSSES: dict[str, type[LeaseLost]] = {
    "expired": Expired,
    "revoked": Revoked,
    "session": SessionEnded,
}


READERS_MAX = 1_000_000  # units of a read/write lock: a reader takes one of them, a writer all


class Share(NamedTuple):
    """How much of a name a request takes, where a name may have several holders.

    A name has ``limit`` units. A semaphore's holder takes one of N, a reader one of very many and
    a writer all; a mutex, 1 of 1, has no share at all. Semaphores, read/write locks and mutexes of
    one name have nothing to do with each other.
    """

    kind: Literal["semaphore", "rwlock"]
    units: int
    limit: int
    slot: int | None = None
    """Which of a semaphore's slots, from 0 to limit - 1, a grant has."""


class Request(NamedTuple):
    """One wish to hold a name.

    ``owner`` is new for every acquisition and makes retries idempotent.
    """

    name: str
    owner: str
    ttl: float
    meta: str = "{}"
    """The caller's description as JSON text: made once, shown to those who inspect the lock."""
    queue: bool = False
    """Join the engine's queue when the lock is busy."""
    waits: bool = False
    """The caller will queue when the lock is busy: a Busy without details is enough."""
    key: int | None = None
    """The store's own number for the lock, where other programs lock by such numbers."""
    share: Share | None = None
    """How much of the name, where it may have several holders; None for a mutex."""


class Grant(NamedTuple):
    """The engine's record of one success."""

    name: str
    owner: str
    fence: int
    ttl: float
    asked_at: float
    """Read before the request was sent, on the holder's own clock."""
    valid_until: float
    """When the holder stops believing in it: always before the engine may give it away."""
    share: Share | None = None
    """How much of the name it holds, where others may hold it too."""

    def __repr__(self) -> str:
        return f"Grant(name={self.name!r}, fence={self.fence}, owner={mask(self.owner)!r})"


class Busy(NamedTuple):
    """A definite no, with what the engine knows about when to look again."""

    look_in: float
    """Seconds after which looking again is worthwhile even without a push."""
    position: int | None = None
    """Waiters ahead of this one, where the engine keeps a queue."""
    queued: bool = False
    """The request stands in the engine's queue and its push will reach us."""
    holder: str = ""
    """Meta of the present holder as JSON text, for messages."""


Together: TypeAlias = list[Grant] | tuple[str, Busy] | None
"""The outcome of a request for several names at once: all grants, or nothing. Then it is the first
name that is busy; or None, where the engine cannot tell in one step."""


class Gone(NamedTuple):
    """The answer to a renewal that found no record of ours."""

    loss: Loss
    reason: str


class Holding(NamedTuple):
    """One holder, as shown to those who inspect. The owner id is a capability and is not here."""

    name: str
    fence: int
    ttl: float
    age: float
    """Seconds since the grant."""
    remaining: float
    """Seconds until the engine would give the lock away unless it is renewed."""
    meta: Meta
    role: Role = "lock"
    """What it holds: a lock, a slot of a semaphore, a read or a write lock."""
    slot: int | None = None
    """Which slot of a semaphore."""
    limit: int | None = None
    """How many may hold the semaphore; None where another program holds it, and for the others."""

    @property
    def kind(self) -> Kind:
        """What is held in this role: kinds of one name have nothing to do with each other."""
        return kind_of(self.role)

    @property
    def election(self) -> bool:
        """Whether it leads: it holds its lock as the term of an election."""
        return is_election(self.role, self.meta)


class Waiting(NamedTuple):
    """One waiter in the queue, first come first."""

    age: float
    meta: Meta
    role: Role = "lock"
    """What it waits for."""

    @property
    def kind(self) -> Kind:
        """In which queue it waits: each kind has its own."""
        return kind_of(self.role)

    @property
    def election(self) -> bool:
        """Whether it campaigns, where the engine shows the meta of waiters."""
        return is_election(self.role, self.meta)


class State(NamedTuple):
    """What an engine knows of one name."""

    name: str
    holders: tuple[Holding, ...] = ()
    waiters: tuple[Waiting, ...] = ()
    limit: int | None = None
    """How many may hold the semaphore of this name, while it is in use."""

    def of(self, kind: Kind) -> State:
        """The holders and waiters of one kind alone."""
        return State(
            self.name,
            tuple(holding for holding in self.holders if holding.kind == kind),
            tuple(waiting for waiting in self.waiters if waiting.kind == kind),
            self.limit if kind == "semaphore" else None,
        )

    @property
    def leader(self) -> Holding | None:
        """Who leads, where the lock is held as the term of an election."""
        return next((holding for holding in self.holders if holding.election), None)


class Owed(NamedTuple):
    """Something that a client is still taking back, because its engine has not confirmed it."""

    name: str
    what: Literal["withdraw", "release"]
    """An attempt that is taken back, or a lock that is given back."""
    since: float
    """When it began, on the clock of the client."""


class Finding(NamedTuple):
    """Something that an engine noticed about its own surroundings."""

    level: Literal["ok", "note", "warning", "problem"]
    """A problem breaks a promise, a warning may; a note is worth knowing."""
    topic: str
    text: str
    advice: str = ""
    """What to change, where something should be."""


class Traits(NamedTuple):
    """What an engine, as configured, promises. Used to refuse, to warn and to print the matrix.

    Of the flags that are False unless set, only what is named is promised.
    """

    safety: Safety
    scope: Literal["process", "machine", "network"]
    fence: bool = False
    fifo: bool = False
    push: bool = False
    durable: bool = False
    """Grants survive a restart of the engine."""
    advice: str = ""
    """What to change where a caller demands more than this."""
    revoke: bool = True
    """A lock can be taken from its holder, where the engine has that verb at all."""
    scan: bool = True
    """Locks can be listed, where the engine has that verb at all."""
    portable: bool = False
    """A grant outlives the process that acquired it, for as long as its ttl: another process that
    knows the owner can renew and release it, or repeat the request and get the same grant. Where
    the first in a queue must claim the lock before it holds, a waiter's position is as portable."""
    shared: bool = False
    """Names can have several holders: semaphores and read/write locks."""
    remembers: bool = False
    """What was done is remembered after the process that did it is gone: once-per-schedule jobs,
    latches and barriers."""
    ttl_max: float | None = None
    """Seconds for which a grant lasts at most unless it is renewed, where that is limited: a longer
    ttl is cut to it."""


# On the hot path a named tuple is made as the plain one that it is, in half the time.
_make_grant: Callable[[type[Grant], tuple[object, ...]], Grant] = cast("Any", tuple).__new__
_make_request: Callable[[type[Request], tuple[object, ...]], Request] = cast("Any", tuple).__new__
_make_busy: Callable[[type[Busy], tuple[object, ...]], Busy] = cast("Any", tuple).__new__


def wished(
    name: str,
    owner: str,
    ttl: float,
    meta: str,
    waits: bool,
    key: int | None,
    share: Share | None = None,
) -> Request:
    """Make the first request for a lock."""
    return _make_request(Request, (name, owner, ttl, meta, False, waits, key, share))


def queued(request: Request) -> Request:
    """The same request, to join the engine's queue."""
    name, owner, ttl, meta, _, waits, key, share = request
    return _make_request(Request, (name, owner, ttl, meta, True, waits, key, share))


def refused(look_in: float, position: int | None, queued: bool, holder: str) -> Busy:
    """Make a definite no."""
    return _make_busy(Busy, (look_in, position, queued, holder))


def granted(
    name: str, owner: str, fence: int, ttl: float, asked_at: float, share: Share | None = None
) -> Grant:
    """Make a grant whose validity is counted from before the request was sent."""
    until = asked_at + ttl - (ttl * DRIFT + DRIFT_S)  # as drift() says, without the call
    return _make_grant(Grant, (name, owner, fence, ttl, asked_at, until, share))


def renewed(grants: Sequence[Grant], asked_at: float) -> list[Grant]:
    """Renew many grants at one moment; those of equal ttl share their numbers."""
    ends = {ttl: asked_at + ttl - drift(ttl) for ttl in {grant.ttl for grant in grants}}
    return [
        Grant(name, owner, fence, ttl, asked_at, ends[ttl], share)
        for name, owner, fence, ttl, _, _, share in grants
    ]


def counted_from(grant: Grant) -> float:
    """Return the moment from which the ttl of a grant counts, which is not after ``asked_at``.

    It is earlier where the grant ends with a session that is older: see ``valid_until``.
    """
    since = grant.valid_until - grant.ttl + drift(grant.ttl)
    return since if since < grant.asked_at - ROUNDING_S else grant.asked_at


def drift(ttl: float) -> float:
    """Return the drift allowance: clocks differ in rate, and a holder needs a moment to notice."""
    return ttl * DRIFT + DRIFT_S


def check_fence(fence: object) -> int:
    """Return a fence, or say what is wrong with it."""
    if isinstance(fence, bool) or not isinstance(fence, int) or not 0 < fence <= FENCE_MAX:
        raise UsageError(f"a fence is an integer from 1 to {FENCE_MAX}, not {fence!r:.80}")
    return fence


def next_fence(last: int, wall_us: int) -> int:
    """Draw a fence that is above the last one, and above any that was drawn before data was lost.

    The wall clock may step; it only ever lifts the number. A clock that claims the far future is
    ignored.
    """
    return max(last + 1, wall_us if wall_us < FENCE_MAX // 2 else 0)


def units_of(share: Share | None) -> int:
    """How many units of a name are taken: a mutex takes its only one."""
    return 1 if share is None else share.units


def role_of(share: Share | None) -> Role:
    """What a holder or a waiter is, for listings and guards."""
    if share is None:
        return "lock"
    if share.kind == "semaphore":
        return "semaphore"
    return "write" if share.units == share.limit else "read"


def share_shown(share: Share | None) -> tuple[Role, int | None, int | None]:
    """Return the role, the slot and the limit that a Holding shows of a share."""
    if share is None or share.kind == "rwlock":
        return role_of(share), None, None
    return "semaphore", share.slot, share.limit


def kind_of(role: Role) -> Kind:
    """Return the kind of lock that has this role."""
    if role == "lock":
        return "mutex"
    return "semaphore" if role == "semaphore" else "rwlock"


def is_election(role: Role, meta: Meta) -> bool:
    """Whether a lock is held or wanted in order to lead."""
    return role == "lock" and meta.get(RECIPE) == ELECTION


def in_order(holdings: Iterable[Holding]) -> list[Holding]:
    """Sort holders as they are listed: by name and kind, slots by number, others by fence."""
    return sorted(
        holdings,
        key=lambda one: (
            one.name,
            KINDS.index(one.kind),
            FENCE_MAX if one.slot is None else one.slot,
            one.fence,
        ),
    )


def queues_in_order(waiters: Iterable[Waiting]) -> list[Waiting]:
    """Sort waiters as they are listed: one queue after the other, each first come first."""
    return sorted(waiters, key=lambda one: KINDS.index(one.kind))


def limits_differ(name: str, theirs: int, ours: int) -> UsageError:
    """Make the error of a request whose limit differs from that of a semaphore in use."""
    return UsageError(
        f"the semaphore {name!r} is in use with limit={theirs}, and limit={ours} was asked for: "
        "give all its users the same limit, or wait until nobody holds it or waits for it"
    )


def shown(text: str) -> str:
    """Make text of others safe for a message, a log or a terminal: one line, no control sequences.

    Control characters, line breaks, escape codes, marks that turn the direction of writing and lone
    surrogates are replaced.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def mask(owner: str) -> str:
    """Show enough of an owner id to tell two apart, never enough to use it."""
    return owner[:6] + "…"
