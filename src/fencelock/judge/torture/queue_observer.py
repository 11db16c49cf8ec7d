"""Watch the locks of a torture: who holds them, and who stands in their queues.

Clients cannot see when they stand in the queue, nor what the engine keeps for them; the engine can.
Whoever was there before the request is recorded for the moment of the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from ... import sync
from ...errors import FencelockError
from ..history import Event
from .adapters import WHO

EVERY_S = 0.1
JOIN_S = 30.0
YOUNG_S = 0.02  # an age that two clocks may disagree about


class QueueObserver:
    """A thread that inspects the locks, again and again, and records who holds and who waits."""

    def __init__(self, client: sync.Client, names: Sequence[str], now: Callable[[], float]) -> None:
        self._client = client
        self._names = names
        self._now = now
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue_observer", daemon=True)
        self.events: list[Event] = []

    def __enter__(self) -> Self:
        if self._names:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            for name in self._names:
                try:
                    self._look(name)
                except FencelockError:
                    pass  # the next look may succeed, and a missing note accuses nobody

    def _look(self, name: str) -> None:
        asked_at = self._now()
        _, holders, waiters, _ = self._client.inspect(name)
        spent = self._now() - asked_at
        seen = [("kept", one.age, one.meta) for one in holders]
        seen += [("queued", one.age, one.meta) for one in waiters]
        for verb, age, meta in seen:
            if age > spent + YOUNG_S and WHO in meta:
                self.events.append(Event(asked_at, str(meta[WHO]), "note", verb, name=name))
