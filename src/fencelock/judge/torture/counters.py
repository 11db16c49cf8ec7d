"""Keep the counters that the clients of a torture increment, with and without a guard.

Both live in the parent process, so nothing that befalls a client befalls them, and each operation
takes effect at one moment of one clock. The guarded ones accept a fence that is at least the
highest seen, and reads count. The others accept everything, as most resources do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from ..history import Event


class Answer(NamedTuple):
    """What an operation on a counter came to."""

    accepted: bool
    value: int


class SharedCounter:
    """One number."""

    def __init__(self) -> None:
        self.value = 0
        self.mark = 0
        """The highest fence that was accepted."""
        self.writes = 0
        self.refused = 0
        self.lost = 0
        """Acknowledged updates that a later write did not know of."""

    def read(self, fence: int | None) -> Answer:
        return Answer(self._admits(fence), self.value)

    def write(self, fence: int | None, seen: int) -> Answer:
        """Count up from what the writer has read."""
        if not self._admits(fence):
            return Answer(False, self.value)
        self.lost += self.value - seen
        self.writes += 1
        self.value = seen + 1
        return Answer(True, self.value)

    def _admits(self, fence: int | None) -> bool:
        if fence is None:
            return True
        if fence < self.mark:
            self.refused += 1
            return False
        self.mark = fence
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
        """What the guarded ones were asked, and answered."""
        self.losses: list[Event] = []
        """Each write that made an unguarded one forget what others had written."""

    def do(
        self,
        client: str,
        asked_at: float,
        verb: str,
        name: str,
        fence: int | None,
        seen: int | None,
    ) -> Answer:
        """One operation, at one moment."""
        with self._mutex:
            kind = self.plain if fence is None else self.guarded
            counter = kind.setdefault(name, SharedCounter())
            before = counter.lost
            answer = counter.read(fence) if seen is None else counter.write(fence, seen)
            if fence is not None:
                self._record(client, asked_at, verb, name, fence, answer)
            elif counter.lost > before:
                text = f"{counter.lost - before} updates of others are lost"
                at = self._now()
                self.losses.append(Event(at, client, "note", "write", 0, name, 0, None, text))
            return answer

    def _record(
        self, client: str, asked_at: float, verb: str, name: str, fence: int, answer: Answer
    ) -> None:
        op, value = next(self._ops), answer.value
        begun = Event(min(asked_at, self._now()), client, "invoke", verb, op, name, fence, None)
        kind = "ok" if answer.accepted else "fail"
        detail = "" if answer.accepted else "the guard refused an old fence"
        ended = Event(self._now(), client, kind, verb, op, name, fence, value, detail)
        self.events += [begun, ended]
