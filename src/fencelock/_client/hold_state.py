"""The state of one hold, kept apart from the lease object in the user's hands.

The keeper refers to holds, the user to a lease that points to one. So a lease that is dropped can
be collected, and its collection is seen. A hold ends once, in exactly one way: released or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar, cast

from ..errors import LeaseLost
from ..model import ELECTION, LOSSES, Grant, Loss, Role, is_election, role_of, shown
from ..observe import Event, group_of, make_event
from .holder_meta import read_meta
from .validation import TTL_MIN_S

if TYPE_CHECKING:
    from ..world import Signal
    from .events import Attempt


V = TypeVar("V")
Label: TypeAlias = tuple[str, str | None]
"""The labels of a hold's events: the scheme of the engine, and the group that the caller gave."""
_KINDS: dict[type[LeaseLost], str] = {error: loss for loss, error in LOSSES.items()}


class RareAttribute(Generic[V]):
    """An attribute that few holds have.

    It takes no room in those that do not: a program may hold ten thousand.
    """

    def __init__(self, default: V) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, hold: HoldState, owner: type) -> V:
        if hold.rare is None:
            return self._default
        return cast("V", hold.rare.get(self._name, self._default))

    def __set__(self, hold: HoldState, value: V) -> None:
        if hold.rare is not None:
            hold.rare[self._name] = value
        elif value is not self._default:
            hold.rare = {self._name: value}


class HoldState:
    """One hold, from its grant to its end."""

    count: RareAttribute[int] = RareAttribute(1)
    """How often the same thread or task has entered it."""
    before_release: RareAttribute[Callable[[], None] | None] = RareAttribute(None)
    """Called before the lock is given back: what it protects may not be committed yet."""
    entry: RareAttribute[tuple[int, str]] = RareAttribute((0, ""))
    """The key of a re-entrant hold in ``LeaseLifecycle``."""
    failure: RareAttribute[Exception | None] = RareAttribute(None)
    """Why the last renewal failed, if it did."""
    hold_until: RareAttribute[float | None] = RareAttribute(None)
    """When its max_hold ends, if it has one."""
    hook: RareAttribute[Callable[[], None] | None] = RareAttribute(None)
    """Called at once on loss: under asyncio it cancels the body."""
    on_lost: RareAttribute[Callable[[LeaseLost], object] | None] = RareAttribute(None)
    owed: RareAttribute[bool] = RareAttribute(False)
    """The engine may not know of the release, which can then be repeated."""
    failed: RareAttribute[bool] = RareAttribute(False)
    """A block within another one of the same hold has raised."""
    handed_over: RareAttribute[bool] = RareAttribute(False)
    """It has ended here, and another process may hold it."""
    downgraded: RareAttribute[bool] = RareAttribute(False)
    """It was a write lock, and may be no more than a read lock by now."""
    delay: RareAttribute[float] = RareAttribute(0.0)
    """Seconds after its end for which the engine keeps it from others, unless it is released."""
    min_until: RareAttribute[float] = RareAttribute(0.0)
    """The moment until which the engine keeps it from others, even if it is released."""
    reader: RareAttribute[Callable[[], object] | None] = RareAttribute(None)
    """A weak reference to the thread or task that reads under it."""
    presumed: RareAttribute[bool] = RareAttribute(False)
    """Its release is presumed without a proof: see release.free_again."""
    signal: RareAttribute[Signal | None] = RareAttribute(None)
    """Made when somebody waits for the loss."""

    __slots__ = (
        "attend_at",
        "generation",
        "grant",
        "label",
        "loss",
        "meta",
        "rare",
        "released",
        "renewals",
        "renews",
        "since",
        "ttl",
    )

    def __init__(
        self,
        grant: Grant,
        meta: str,
        renews: bool,
        hold_until: float | None,
        on_lost: Callable[[LeaseLost], object] | None,
        generation: int,
        label: Label = ("", None),
    ) -> None:
        self.grant = grant
        self.label = label
        self.ttl = grant.ttl
        self.since = grant.asked_at
        """When it was requested; the grant that a renewal brings is younger."""
        self.meta = meta
        self.renews = renews
        self.rare: dict[str, object] | None = None
        """Attributes that few holds have: see RareAttribute."""
        if hold_until is not None:
            self.hold_until = hold_until
        if on_lost is not None:
            self.on_lost = on_lost
        self.generation = generation
        self.renewals = 0
        self.attend_at = 0.0
        """When the keeper has to look at it; 0 until the keeper has scheduled that."""
        self.released = False
        self.loss: LeaseLost | None = None

    @property
    def role(self) -> Role:
        """What is held: a lock, a slot of a semaphore, a read or a write lock."""
        return "read" if self.downgraded else role_of(self.grant.share)

    @property
    def ended(self) -> bool:
        """Whether it was released or lost."""
        return self.released or self.loss is not None

    def valid_until(self) -> float:
        """When the holder stops believing in it."""
        if self.rare is None or self.hold_until is None:
            return self.grant.valid_until
        return min(self.grant.valid_until, self.hold_until)

    def remaining(self, now: float) -> float:
        """Seconds for which the lease still promises exclusivity; never below 0."""
        if self.released or self.loss is not None:
            return 0.0
        return max(0.0, self.valid_until() - now)

    def why_lapsed(self, asking: bool) -> str:
        """Return why a hold has expired; ``asking`` says that a renewal is under way."""
        if self.hold_until is not None and self.hold_until - self.grant.valid_until <= TTL_MIN_S:
            return "its max_hold was reached"  # so near to its end nothing is renewed any more
        if not self.renews:
            return f"its ttl of {self.ttl:g} s ran out, and renewal is off"
        if self.failure is not None:
            return f"it could not be renewed within its ttl of {self.ttl:g} s ({self.failure})"
        if asking:
            return f"its renewal was not answered within its ttl of {self.ttl:g} s"
        return (
            f"it was not renewed within its ttl of {self.ttl:g} s: "
            "the process was stopped, or its interpreter or event loop was blocked"
        )

    def event(
        self,
        kind: str,
        detail: str = "",
        seconds: float | None = None,
        waited: bool = False,
        blocker: str = "",
        slack: float | None = None,
        call: float | None = None,
    ) -> Event:
        """Make an event of what happened to it, for subscribers."""
        name, _, fence, _, _, _, share = self.grant
        (engine, group), loss, meta, slot = self.label, self.loss, self.meta, None
        role: Role = "lock"
        if share is not None:
            role, slot = self.role, share.slot
        leads = ELECTION in meta and is_election(role, read_meta(meta))
        outcome = _KINDS.get(type(loss), "") if loss is not None and kind == "lost" else ""
        renewals = self.renewals if slack is not None else 0
        # fmt: off
        return make_event(Event, (
            kind, name, fence, detail, seconds, role, slot, leads, engine, group or group_of(name),
            outcome, waited, None, blocker, renewals, slack, "", "", call,
        ))
        # fmt: on

    def acquired(self, now: float, started: float, attempt: Attempt) -> Event:
        """Make the event of its grant."""
        waited, blocker = attempt.waited, attempt.blocker
        call = now - self.since if attempt.at_once else None
        return self.event("acquired", "", now - started, waited, blocker, None, call)

    def lost_error(self, loss: Loss, reason: str) -> LeaseLost:
        """Make the error of a loss; another client may have written the reason."""
        reason = shown(reason)
        return LOSSES[loss](
            f"the lease on {self.grant.name!r} (fence {self.grant.fence}) is lost: {reason}. "
            "Another may hold the lock now: stop, and let the guard refuse what is under way",
            name=self.grant.name,
            fence=self.grant.fence,
            reason=reason,
        )

    def lost_again(self, loss: LeaseLost) -> LeaseLost:
        """Copy the error to raise it: one object must not gather the tracebacks of many threads."""
        return type(loss)(str(loss), name=loss.name, fence=loss.fence, reason=loss.reason)


class HasHold(Protocol):
    """All that the client knows of a lease: its hold."""

    @property
    def _hold(self) -> HoldState: ...
