"""Where the marks of a server are kept.

Whatever has ``enter(fence, name=...)`` will do, so a guard of another resource is a store of marks:
``RedisGuard`` and ``AsyncRedisGuard`` are. ``MemoryMarks`` is for a server of one process,
``SqlMarks`` keeps them in a database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable
from typing import Any, Protocol

from ...errors import UsageError
from ..fence import Fenced, claim

__all__ = ["AsyncMarks", "Marks", "MemoryMarks"]


class Marks(Protocol):
    """A store for blocking servers; asyncio servers call it in a thread."""

    def enter(self, lease: int, /, *, name: str) -> Any:
        """Raise the mark of a name or raise StaleFence; EngineError when it cannot be known."""
        ...


class AsyncMarks(Protocol):
    """A store for asyncio servers."""

    def enter(self, lease: int, /, *, name: str) -> Awaitable[Any]:
        """Raise the mark of a name or raise StaleFence; EngineError when it cannot be known."""
        ...


class MemoryMarks:
    """Marks of this process, for a server that has no other, and for tests.

    They end with the process: the first request after a restart is accepted, whatever its fence. A
    server of several processes needs a store that all of them share.
    """

    blocks = False
    """Asyncio servers may call it directly."""

    def __init__(self, *, epoch: int = 0) -> None:
        claim(1, "any", epoch)  # refuses what is no epoch
        self._epoch = epoch
        self._marks: dict[str, tuple[int, float]] = {}
        self._turn = threading.Lock()

    def enter(self, lease: Fenced | int, *, name: str | None = None) -> None:
        """Raise the mark, or raise StaleFence."""
        theirs = claim(lease, name, self._epoch)
        with self._turn:
            seen, _ = self._marks.get(theirs.name, (0, 0.0))
            if theirs.mark < seen:
                raise theirs.stale(seen)
            if theirs.mark > seen:
                self._marks[theirs.name] = (theirs.mark, time.monotonic())

    def mark(self, name: str) -> int:
        """The mark of a name, in epoch 0 the highest fence that was seen; 0 when there is none."""
        return self._marks.get(name, (0, 0.0))[0]

    def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, also to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Whoever still holds a lease of the old one is
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        mark = claim(to, name, self._epoch).mark if to != 0 else 0
        with self._turn:
            self._marks.pop(name, None)
            if mark:
                self._marks[name] = (mark, time.monotonic())

    def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that nobody has raised for so many seconds; say how many.

        A holder that was frozen for longer than that is then accepted again: choose days, not
        minutes. Time is told by the clock of this process.
        """
        seconds = checked_age(older_than_seconds)
        with self._turn:
            limit = time.monotonic() - seconds
            old = [name for name, (_, raised) in self._marks.items() if raised <= limit]
            for name in old:
                del self._marks[name]
        return len(old)


def checked_age(seconds: object) -> float:
    """How old a mark must be to be forgotten, or UsageError."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise UsageError(f"marks are forgotten after a number of seconds, not after {seconds!r}")
    return seconds
