"""The registry of the attempts that are over: released or withdrawn.

A node refuses a delayed copy of a request whose attempt is over. So an owner that tries again
numbers that as another attempt; and a lease that a poll brings for an attempt that is over is
withdrawn, because no caller would release it.
"""

from __future__ import annotations

KEPT_MAX = 5000
ATTEMPT_MAX = 1000


class Attempts:
    """The last attempts of one client that are over, by owner. Any thread may call any method."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._over: dict[str, None] = {}

    def begin(self, owner: str) -> int:
        """Return the number of an owner's attempt, which is not over from now on."""
        if owner in self._over:
            self._over.pop(owner, None)
        return self._next.get(owner, 0)

    def number(self, owner: str) -> int:
        """Return the number of an owner's present attempt, or of its last one."""
        number = self._next.get(owner, 0)
        return max(number - 1, 0) if owner in self._over else number

    def end(self, owner: str) -> None:
        """Record that an owner's attempt is over; a second call changes nothing."""
        if owner in self._over:
            return
        self._next[owner] = min(self._next.get(owner, 0) + 1, ATTEMPT_MAX)
        self._over[owner] = None
        while len(self._next) > KEPT_MAX:
            oldest = next(iter(self._next))
            self._next.pop(oldest, None)
            self._over.pop(oldest, None)

    def is_over(self, owner: str) -> bool:
        return owner in self._over
