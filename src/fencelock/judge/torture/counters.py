"""The counters that the clients of a torture increment, with and without a guard.

Both live in the parent process, so no fault of a client affects them, and each operation takes
effect at one moment of one clock. The guarded ones accept a fence that is at least the highest
seen, and reads count; the fence of a read lock is compared with those of writers only. The others
accept everything, as most resources do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from ..history import Event


class Answer(NamedTuple):
    """The result of an operation on a counter."""

    accepted: bool
    value: int


class SharedCounter:
    """One number, its marks, and the results of its updates."""

    def __init__(self) -> None:
        self.value = 0
        self.mark = 0
        """The highest fence that was accepted."""
        self.written = 0
        """The highest fence of those that may have written."""
        self.writes = 0
        self.refused = 0
        self.lost = 0
        """How many acknowledged updates a later write has overwritten unseen."""

    def read(self, fence: int | None, reading: bool = False) -> Answer:
        """Return the number; ``reading`` says that the fence is that of a read lock."""
        return Answer(self._admits(fence, reading), self.value)

    def write(self, fence: int | None, seen: int) -> Answer:
        """Set the number to one more than the writer has read."""
        if not self._admits(fence):
            return Answer(False, self.value)
        self.lost += self.value - seen
        self.writes += 1
        self.value = seen + 1
        return Answer(True, self.value)

    def _admits(self, fence: int | None, reading: bool = False) -> bool:
        if fence is None:
            return True
        if fence < (self.written if reading else self.mark):
            self.refused += 1
            return False
        self.mark = max(self.mark, fence)
        self.written = self.written if reading else fence
        return True


class SharedCounters:
    """A guarded and an unguarded counter for each name, and a record of what was done to them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._mutex = threading.Lock()
        self._ops = count(1)
        self.guarded: dict[str, SharedCounter] = {}
        self.plain: dict[str, SharedCounter] = {}
        self.events: list[Event] = []
        """The operations on guarded counters, and their results."""
        self.losses: list[Event] = []
        """The writes to unguarded counters that overwrote the updates of others."""

    def do(
        self,
        client: str,
        asked_at: float,
        verb: str,
        name: str,
        fence: int | None,
        seen: int | None,
        role: str = "",
    ) -> Answer:
        """Do one operation, atomically: a read if ``seen`` is None, else a write."""
        with self._mutex:
            kind = self.plain if fence is None else self.guarded
            counter = kind.setdefault(name, SharedCounter())
            before = counter.lost
            if seen is None:
                answer = counter.read(fence, role == "read")
            else:
                answer = counter.write(fence, seen)
            if fence is not None:
                self._record(client, asked_at, verb, name, fence, answer, role)
            elif counter.lost > before:
                lost = counter.lost - before
                text = f"{lost} updates of others are lost" if lost > 1 else "an update is lost"
                at = self._now()
                self.losses.append(Event(at, client, "note", "write", 0, name, 0, None, text))
            return answer

    def _record(
        self,
        client: str,
        asked_at: float,
        verb: str,
        name: str,
        fence: int,
        answer: Answer,
        role: str,
    ) -> None:
        op, value, at = next(self._ops), answer.value, min(asked_at, self._now())
        begun = Event(at, client, "invoke", verb, op, name, fence, role=role)
        kind = "ok" if answer.accepted else "fail"
        detail = "" if answer.accepted else "the guard refused an old fence"
        ended = Event(self._now(), client, kind, verb, op, name, fence, value, detail)
        self.events += [begun, ended]
