"""Count the time of a session of the store that all leases of a client share.

A store ends such a session, and frees what it holds, unless it is renewed within its ttl. It is
counted from before each request was sent, so it ends here before the store may end it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from ..world import snapshot


class SharedSession:
    """One session, and until when it is known to live."""

    def __init__(self, ttl: float, asked_at: float) -> None:
        self.ttl = ttl
        self.alive_at = self.used_at = asked_at
        """When its creation or last answered renewal was sent; when it was last needed."""
        self.ended = False

    def is_over(self, now: float) -> bool:
        """Return whether it has ended, or may have."""
        return self.ended or now >= self.alive_at + self.ttl

    def counted_from(self, asked_at: float, ttl: float) -> float:
        """Return ``asked_at``, or earlier, so that a lease of this ttl ends before the session."""
        return min(asked_at, self.alive_at + self.ttl - ttl)

    def must_be_renewed(self, since: float, ttl: float) -> bool:
        """Return whether a lease of this ttl cannot start at ``since`` without a renewal."""
        return self.counted_from(since, min(ttl, self.ttl)) < since


class OnSession(Protocol):
    """A hold, which ends with its session."""

    @property
    def session(self) -> Any: ...


S = TypeVar("S", bound=SharedSession)


def end_if_unused(
    session: S,
    holds: Mapping[str, OnSession],
    mutex: AbstractContextManager[object],
    end: Callable[[S], None],
) -> bool:
    """End a session here unless it has a hold; return whether it had none.

    With the mutex under which holds begin, which look at ``ended``, none begins on it afterwards.
    """
    with mutex:
        if any(hold.session is session for _, hold in snapshot(holds)):
            return False
        end(session)
        return True
