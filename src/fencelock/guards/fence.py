"""Read the fence of a lease and compare it with a mark: what every guard does first.

A *mark* is an epoch and a fence in one number of 63 bits, so that any store that compares integers
can keep it. The epoch goes up by one when a name moves to another engine: what that engine counts
may begin anywhere, and still exceeds all that came before.

A name has two marks: the highest fence of all, and the highest that may have written. Whoever holds
a lock, a slot of a semaphore or a write lock is a writer, and must not be below the first; a reader
must not be below the second. A store keeps the first where it kept its only mark before there were
readers, and the second beside it while a reader is the highest. So what was kept then is the mark
of a writer, and a program that knows one mark refuses whatever is older than a reader or a writer.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

from .. import observe
from ..errors import StaleFence, UsageError
from ..model import FENCE_MAX, check_fence

__all__ = [
    "EPOCH_MAX",
    "FENCE_MAX",
    "MARK_DIGITS",
    "Claim",
    "Fenced",
    "MarkPair",
    "check_age",
    "claim",
    "name_of",
]

EPOCH_MAX = 2**10 - 1
MARK_DIGITS = 19  # those of 2**63: a mark as text of this length sorts as its number does
_STEP = FENCE_MAX + 1


class Fenced(Protocol):
    """A lease of either flavor, or whatever else carries a name and a fence.

    If it has a ``role``, as a lease does, that says whether it reads.
    """

    @property
    def name(self) -> str: ...

    @property
    def fence(self) -> int: ...


class Claim(NamedTuple):
    """Somebody's word that they may touch a name: what a guard decides about."""

    name: str
    fence: int
    epoch: int = 0
    reading: bool = False
    """The fence is that of a read lock."""
    guard: str = ""
    """Which kind of guard it is offered to, for whoever counts refusals."""

    @property
    def mark(self) -> int:
        """Epoch and fence in one number that fits in 63 bits."""
        return self.epoch * _STEP + self.fence

    def stale(self, mark: int, seen: Literal["read", "write"] = "write") -> StaleFence:
        """The error for a claim that is below the mark of the readers or of the writers; those who
        subscribed to events are told of the refusal.
        """
        self.emit_stale()
        epoch, highest = divmod(mark, _STEP)
        if epoch == self.epoch:
            return StaleFence(name=self.name, offered=self.fence, highest=highest, seen=seen)
        return StaleFence(
            f"{self.name!r} has moved on to epoch {epoch} and refuses fence {self.fence} of epoch "
            f"{self.epoch}: give this guard the new epoch, or stop this old program",
            name=self.name,
            offered=self.fence,
            highest=highest,
            seen=seen,
        )

    def emit_stale(self) -> None:
        """Tell those who subscribed to events that this claim was refused."""
        if observe.subscribers:
            name, fence = self.name, self.fence
            group, guard = observe.group_of(name), self.guard
            observe.emit(observe.Event("stale", name, fence, group=group, guard=guard))

    def to_write(self) -> Claim:
        """The claim, for an operation that writes; UsageError when it may only read."""
        if self.reading:
            raise UsageError(
                f"{self.name!r} is held for reading, so nothing was written: acquire it for writing"
            )
        return self


class MarkPair(NamedTuple):
    """The marks of a name."""

    highest: int = 0
    """Of all that were here; a reader's while it is above the other."""
    written: int = 0
    """Of those that may have written."""

    def admit(self, theirs: Claim) -> MarkPair:
        """The marks that a claim leaves behind, or StaleFence when it is below the one it meets."""
        if theirs.reading:
            if theirs.mark < self.written:
                raise theirs.stale(self.written)
            return MarkPair(max(self.highest, theirs.mark), self.written)
        if theirs.mark < self.highest:
            raise theirs.stale(self.highest, "read" if self.highest > self.written else "write")
        return MarkPair(theirs.mark, theirs.mark)

    def of(self, reading: bool) -> int:
        """The mark that a reader, or a writer, must not be below."""
        return self.written if reading else self.highest


def claim(
    token: Fenced | int,
    name: str | None = None,
    epoch: int = 0,
    reading: bool = False,
    guard: str = "",
) -> Claim:
    """Read a lease, or a bare fence with the name that it is for; else raise UsageError.

    With a lease, ``name`` may be left out; if it is given, the lease must be of that very name. One
    that knows itself that it is over raises LeaseLost: the resource need not be asked. A lease says
    itself whether it reads; ``reading`` says it of a bare fence, which is a writer's otherwise.
    """
    if isinstance(token, int):
        if name is None:
            raise UsageError("a bare fence does not say what it is for: pass name=, too")
        fence: Any = token
    else:
        theirs, fence = getattr(token, "name", None), getattr(token, "fence", _NO_FENCE)
        if not isinstance(theirs, str) or fence is _NO_FENCE:
            raise UsageError(f"a guard takes a lease or an integer fence, not {token!r}")
        check = getattr(token, "check", None)
        if callable(check):
            check()
        role = getattr(token, "role", None)
        if role is not None and (reading or role != "lock"):
            reading = _reads(role, theirs, reading)
            if role == "semaphore":
                theirs = name_of(token)
        if name is None:
            name = theirs
        elif name != theirs:
            raise _mismatch(theirs, name)
    # Written out, because a guarded write can be so short that the calls would count.
    plain = type(fence) is int and type(epoch) is int and type(name) is str
    if plain and 0 < fence <= FENCE_MAX and 0 <= epoch <= EPOCH_MAX and name:
        return Claim(name, fence, epoch, reading, guard)
    return Claim(_named(name), check_fence(fence), _epoch(epoch), reading, guard)


def name_of(lease: Fenced) -> str:
    """What a lease guards: the name of its lock, and ``#`` and the slot for a semaphore's.

    Fences of a semaphore grow slot by slot: those of two slots are held at the same time, and of
    what both guard the older would be refused.
    """
    slot = getattr(lease, "slot", None)
    return lease.name if slot is None else f"{lease.name}#{slot}"


def check_age(seconds: object) -> float:
    """Return how old a mark must be to be forgotten, in seconds; else raise UsageError."""
    if (not isinstance(seconds, float) and not _whole(seconds)) or not 0 < seconds < FENCE_MAX:
        raise UsageError(f"marks are forgotten after a number of seconds, not after {seconds!r}")
    return seconds


_NO_FENCE = object()


def _reads(role: object, name: str, told: bool) -> bool:
    reads = role == "read"
    if told and not reads:
        raise UsageError(
            f"the lease of {name!r} says itself that it does not read but has the role {role!r}: "
            "leave reading= out, which is for bare fences"
        )
    return reads


def _mismatch(theirs: str, name: object) -> UsageError:
    _named(name)
    return UsageError(
        f"this fence is for {theirs!r} and says nothing about {name!r}: acquire the lock of "
        "that name, or guard by the lock's own name"
    )


def _named(name: object) -> str:
    if not isinstance(name, str) or name == "":
        raise UsageError(f"what is guarded has a name of at least one character, not {name!r}")
    return name


def _epoch(epoch: object) -> int:
    if not _whole(epoch) or not 0 <= epoch <= EPOCH_MAX:
        raise UsageError(f"an epoch is an integer from 0 to {EPOCH_MAX}, not {epoch!r}")
    return epoch


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
