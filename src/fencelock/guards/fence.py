"""Read the fence of a lease and compare it with a mark: what every guard does first.

A *mark* is an epoch and a fence in one number of 63 bits, so that any store that compares integers
can keep it. The epoch goes up by one when a name moves to another engine: what that engine counts
may begin anywhere, and still exceeds all that came before.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeGuard

from ..errors import StaleFence, UsageError
from ..model import FENCE_MAX, check_fence

__all__ = ["EPOCH_MAX", "FENCE_MAX", "MARK_DIGITS", "Claim", "Fenced", "check_age", "claim"]

EPOCH_MAX = 2**10 - 1
MARK_DIGITS = 19  # those of 2**63: a mark as text of this length sorts as its number does
_STEP = FENCE_MAX + 1


class Fenced(Protocol):
    """A lease of either flavor, or whatever else carries a name and a fence."""

    @property
    def name(self) -> str: ...

    @property
    def fence(self) -> int: ...


class Claim(NamedTuple):
    """Somebody's word that they may touch a name: what a guard decides about."""

    name: str
    fence: int
    epoch: int = 0

    @property
    def mark(self) -> int:
        """Epoch and fence in one number that fits in 63 bits."""
        return self.epoch * _STEP + self.fence

    def stale(self, mark: int) -> StaleFence:
        """The error for a claim that is below the mark."""
        epoch, highest = divmod(mark, _STEP)
        if epoch == self.epoch:
            return StaleFence(name=self.name, offered=self.fence, highest=highest)
        return StaleFence(
            f"{self.name!r} has moved on to epoch {epoch} and refuses fence {self.fence} of epoch "
            f"{self.epoch}: give this guard the new epoch, or stop this old program",
            name=self.name,
            offered=self.fence,
            highest=highest,
        )


def claim(token: Fenced | int, name: str | None = None, epoch: int = 0) -> Claim:
    """Read a lease, or a bare fence with the name that it is for; else raise UsageError.

    With a lease, ``name`` may be left out; if it is given, the lease must be of that very name. One
    that knows itself that it is over raises LeaseLost: the resource need not be asked.
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
        if name is None:
            name = theirs
        elif name != theirs:
            raise _mismatch(theirs, name)
    # Written out, because a guarded write can be so short that the calls would count.
    plain = type(fence) is int and type(epoch) is int and type(name) is str
    if plain and 0 < fence <= FENCE_MAX and 0 <= epoch <= EPOCH_MAX and name:
        return Claim(name, fence, epoch)
    return Claim(_named(name), check_fence(fence), _epoch(epoch))


def check_age(seconds: object) -> float:
    """Return how old a mark must be to be forgotten, in seconds; else raise UsageError."""
    if (not isinstance(seconds, float) and not _whole(seconds)) or not 0 < seconds < FENCE_MAX:
        raise UsageError(f"marks are forgotten after a number of seconds, not after {seconds!r}")
    return seconds


_NO_FENCE = object()


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
