"""Read the fence of a lease and compare it with a mark: the first step of every guard.

A *mark* is an epoch and a fence in one number of 63 bits, so that any store that compares integers
can keep it. The epoch is incremented when a name moves to another engine: the fences of that engine
may start anywhere, and still exceed all earlier ones.

A name has two marks: the highest fence of all, and the highest that may have written. The holder of
a lock, a slot of a semaphore or a write lock is a writer, and must not be below the first; a reader
must not be below the second. A store keeps the first where older versions kept their only mark, and
the second beside it while a reader's is the highest. So an old store's mark is read as a writer's,
and a program that knows one mark refuses every fence below that of a reader or a writer.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

from .. import observe
from ..errors import StaleFence, Unavailable, UsageError
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
    "crowded_out",
    "name_of",
]

EPOCH_MAX = 2**10 - 1
MARK_DIGITS = 19  # those of 2**63: as text of this length, marks sort like numbers
_STEP = FENCE_MAX + 1


class Fenced(Protocol):
    """A lease of either flavor, or any other object with a name and a fence.

    If it has a ``role``, as a lease does, that tells whether it reads.
    """

    @property
    def name(self) -> str: ...

    @property
    def fence(self) -> int: ...


class Claim(NamedTuple):
    """The claim to act on a name with a fence, which a guard accepts or refuses."""

    name: str
    fence: int
    epoch: int = 0
    reading: bool = False
    """Whether the fence is a read lock's."""
    guard: str = ""
    """The kind of guard it is presented to, for the events of refusals."""

    @property
    def mark(self) -> int:
        """Epoch and fence in one number that fits in 63 bits."""
        return self.epoch * _STEP + self.fence

    def stale(self, mark: int, seen: Literal["read", "write"] = "write") -> StaleFence:
        """Return the error for a claim below ``mark``, and emit the event of the refusal.

        ``seen`` says whether that is the mark of a reader or of a writer.
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
        """Emit the event that this claim was refused, if there are subscribers."""
        if observe.subscribers:
            name, fence = self.name, self.fence
            group, guard = observe.group_of(name), self.guard
            observe.emit(observe.Event("stale", name, fence, group=group, guard=guard))

    def to_write(self) -> Claim:
        """Return the claim, for an operation that writes; UsageError if it may only read."""
        if self.reading:
            raise UsageError(
                f"{self.name!r} is held for reading, so nothing was written: acquire it for writing"
            )
        return self


class MarkPair(NamedTuple):
    """The marks of a name."""

    highest: int = 0
    """The highest of all; a reader's while it is above ``written``."""
    written: int = 0
    """The highest of the writers."""

    def admit(self, theirs: Claim) -> MarkPair:
        """Return the marks after accepting a claim, or raise StaleFence if it is below its mark."""
        if theirs.reading:
            if theirs.mark < self.written:
                raise theirs.stale(self.written)
            return MarkPair(max(self.highest, theirs.mark), self.written)
        if theirs.mark < self.highest:
            raise theirs.stale(self.highest, "read" if self.highest > self.written else "write")
        return MarkPair(theirs.mark, theirs.mark)

    def of(self, reading: bool) -> int:
        """Return the mark that a reader, or else a writer, must not be below."""
        return self.written if reading else self.highest


def claim(
    token: Fenced | int,
    name: str | None = None,
    epoch: int = 0,
    reading: bool = False,
    guard: str = "",
) -> Claim:
    """Read a lease, or a bare fence and its name, as a claim; raise UsageError for anything else.

    With a lease, ``name`` may be left out; if it is given, it must be the lease's. A lease that
    knows that it has ended raises LeaseLost, without a request to the resource. The role of a lease
    tells whether it reads; for a bare fence, ``reading`` does, and without it the fence is a
    writer's.
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
    # Inlined, because a guarded write can be so short that the calls would count.
    plain = type(fence) is int and type(epoch) is int and type(name) is str
    if plain and 0 < fence <= FENCE_MAX and 0 <= epoch <= EPOCH_MAX and name:
        return Claim(name, fence, epoch, reading, guard)
    return Claim(_named(name), check_fence(fence), _epoch(epoch), reading, guard)


def name_of(lease: Fenced) -> str:
    """Return the name that a lease guards: its lock's, with ``#`` and the slot for a semaphore's.

    Fences of a semaphore grow per slot: two slots are held at the same time, and under one name the
    older holder would be refused.
    """
    slot = getattr(lease, "slot", None)
    return lease.name if slot is None else f"{lease.name}#{slot}"


def crowded_out(what: str, name: str, attempts: int) -> Unavailable:
    """Return the error for an operation on what a name keeps that lost every race with others."""
    return Unavailable(
        f"the {what} of {name!r} was changed by others {attempts} times before this "
        "could be done, so nothing was done: try again"
    )


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
