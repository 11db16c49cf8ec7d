"""Notify the observers of one client: it polls, for all of them with one statement.

MySQL has no notifications, and to wake a sleeping session one has to know it. So an announcement
is written to a table, and a client polls that table every ``POLL_S``, as long as it has observers.
"""

from __future__ import annotations

from ...errors import FencelockError
from ...world import Job, Signal, World
from .memos import Memos

POLL_S = 0.25  # the interval of the listener, too
CLOSE_S = 2.0


class Observers:
    """The observers of one client, by name."""

    def __init__(self, world: World, memos: Memos) -> None:
        self._world = world
        self._memos = memos
        self._mutex = world.mutex()
        self._signals: dict[str, list[Signal]] = {}
        self._seen: dict[str, int] = {}
        """The number of each name at the last poll."""
        self._job: Job | None = None
        self._ended = world.signal()

    async def observe(self, name: str, signal: Signal) -> None:
        """Set the signal whenever the name is announced from now on."""
        changes = await self._memos.changes([name])
        with self._mutex:
            self._seen.setdefault(name, changes.get(name, 0))
            self._signals.setdefault(name, []).append(signal)
            if self._job is None and not self._ended.is_set():
                self._job = self._world.keep(self._look, "fencelock-observer")

    def unobserve(self, name: str, signal: Signal) -> None:
        """End what ``observe`` began."""
        with self._mutex:
            signals = self._signals.get(name, [])
            if signal in signals:
                signals.remove(signal)
            if not signals:
                self._signals.pop(name, None)
                self._seen.pop(name, None)

    async def _look(self) -> None:
        while not await self._world.wait(self._ended, self._world.now() + POLL_S):
            with self._mutex:
                if not self._signals:
                    self._job = None
                    return
                names = list(self._signals)
            try:
                changes = await self._memos.changes(names)
            except FencelockError:  # the observers meet the same error in their own calls
                continue
            with self._mutex:
                for name, number in changes.items():
                    if number != self._seen.get(name, number):
                        self._seen[name] = number
                        for signal in self._signals[name]:
                            signal.set()

    def close_nowait(self) -> None:
        self._ended.set()

    async def close(self) -> None:
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)
