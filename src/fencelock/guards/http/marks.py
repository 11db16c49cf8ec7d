"""The marks of a server: the interface of a store, and a store in memory.

A store is any object with ``enter(fence, name=...)``, ``mark(name)`` and ``epoch``, so a guard of
another resource can be one: ``RedisGuard`` and ``AsyncRedisGuard`` are. ``MemoryMarks`` is for a
server of one process, ``SqlMarks`` keeps the marks in a database. For requests under a read lock
both methods must take ``reading=True``, too; without that, such requests are refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable
from inspect import Parameter, signature
from typing import Any, Protocol

from ...errors import UsageError
from ..fence import Fenced, MarkPair, check_age, claim

__all__ = ["AsyncMarks", "Marks", "MemoryMarks"]

MARKS_MAX = 100_000
_NO_MARK = (MarkPair(), 0.0)

_log = logging.getLogger("fencelock.guards.http")


class Marks(Protocol):
    """A store for blocking servers; asyncio servers call it in a thread."""

    @property
    def epoch(self) -> int: ...

    def enter(self, lease: int, /, *, name: str) -> Any:
        """Raise the mark of a name or raise StaleFence; EngineError if it cannot be read."""
        ...

    def mark(self, name: str) -> int:
        """Return the mark of a name, 0 if there is none; EngineError if it cannot be read."""
        ...


class AsyncMarks(Protocol):
    """A store for asyncio servers."""

    @property
    def epoch(self) -> int: ...

    def enter(self, lease: int, /, *, name: str) -> Awaitable[Any]:
        """Raise the mark of a name or raise StaleFence; EngineError if it cannot be read."""
        ...

    def mark(self, name: str) -> Awaitable[int]:
        """Return the mark of a name, 0 if there is none; EngineError if it cannot be read."""
        ...


def takes_readers(marks: Marks | AsyncMarks) -> bool:
    """Return whether the methods of a store take ``reading``."""
    return all(
        "reading" in found or any(each.kind is Parameter.VAR_KEYWORD for each in found.values())
        for verb in ("enter", "mark")
        if hasattr(marks, verb)
        for found in [signature(getattr(marks, verb)).parameters]
    )


def as_reader(reading: bool) -> dict[str, bool]:
    """Return the arguments for a store; none for a writer, so that older stores work."""
    return {"reading": True} if reading else {}


def check_store(marks: Marks | AsyncMarks, authorized: bool) -> None:
    """Raise if a store has no ``mark`` and ``epoch`` where they are needed."""
    if not authorized and not (hasattr(marks, "mark") and hasattr(marks, "epoch")):
        raise UsageError(
            f"{type(marks).__name__} has no mark(name) and no epoch, so a fence cannot be checked "
            "before the application has accepted the request: add them, or give authorize="
        )


class MemoryMarks:
    """Marks in memory, for a server of one process, and for tests.

    They end with the process: the first request after a restart is accepted, whatever its fence. A
    server of several processes needs a store that all of them share. At most ``limit`` names have
    marks: the least recently used one is dropped first, and that is logged.
    """

    blocks = False
    """False: asyncio servers may call it directly."""

    def __init__(self, *, epoch: int = 0, limit: int = MARKS_MAX) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        if type(limit) is not int or limit < 1:
            raise UsageError(f"limit is the number of marks to keep, at least 1, not {limit!r}")
        self.epoch = epoch
        self._limit = limit
        self._dropped = 0
        self._marks: dict[str, tuple[MarkPair, float]] = {}  # the last used are last
        self._turn = threading.Lock()

    def enter(self, lease: Fenced | int, *, name: str | None = None, reading: bool = False) -> None:
        """Raise the mark, or raise StaleFence."""
        theirs = claim(lease, name, self.epoch, reading, "http")
        with self._turn:
            seen, raised = self._marks.get(theirs.name, _NO_MARK)
            marks = seen.admit(theirs)
            if marks.highest > seen.highest:
                raised = time.monotonic()
            self._marks.pop(theirs.name, None)
            self._marks[theirs.name] = (marks, raised)
            full = len(self._marks) > self._limit
            if full:
                del self._marks[next(iter(self._marks))]
                self._dropped += 1
        if full and self._dropped == 1:
            _log.warning(
                "more than %d resources have a mark: the oldest are dropped, and holders that were "
                "frozen for long may be let in. Call forget(), or give the marks a store",
                self._limit,
            )

    def mark(self, name: str, *, reading: bool = False) -> int:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        return self._marks.get(name, _NO_MARK)[0].of(reading)

    def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        mark = claim(to, name, self.epoch).mark if to != 0 else 0
        with self._turn:
            self._marks.pop(name, None)
            if mark:
                self._marks[name] = (MarkPair(mark, mark), time.monotonic())

    def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that were not raised for so many seconds; return how many.

        A holder that was frozen for longer than that is then accepted again: choose days, not
        minutes. The time is that of this process's clock.
        """
        seconds = check_age(older_than_seconds)
        with self._turn:
            limit = time.monotonic() - seconds
            old = [name for name, (_, raised) in self._marks.items() if raised <= limit]
            for name in old:
                del self._marks[name]
        return len(old)
