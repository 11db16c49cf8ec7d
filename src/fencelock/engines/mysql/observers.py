"""Tell those of one client who observe names: it looks, for all of them with one statement.

MySQL has no notifications, and a session that sleeps can be woken only by who knows it. So whoever
announces a name writes that down, and a client looks ``LOOK_S`` after it last did, as long as
somebody observes.
"""

from __future__ import annotations

from ...errors import FencelockError
from ...world import Job, Signal, World
from .memos import Memos

LOOK_S = 0.25  # as often as the listener
CLOSE_S = 2.0


class Observers:
    """The observers of one client, by name."""

    def __init__(self, world: World, memos: Memos) -> None:
        self._world = world
        self._memos = memos
        self._mutex = world.mutex()
        self._signals: dict[str, list[Signal]] = {}
        self._seen: dict[str, int] = {}
        """The number of each name when it was last looked at."""
        self._job: Job | None = None
        self._ended = world.signal()

    async def observe(self, name: str, signal: Signal) -> None:
        """Set the signal whenever the name was announced after this."""
        changes = await self._memos.changes([name])
        with self._mutex:
            self._seen.setdefault(name, changes.get(name, 0))
            self._signals.setdefault(name, []).append(signal)
            if self._job is None and not self._ended.is_set():
                self._job = self._world.keep(self._look, "fencelock-observer")

    def unobserve(self, name: str, signal: Signal) -> None:
        """Forget a signal."""
        with self._mutex:
            signals = self._signals.get(name, [])
            if signal in signals:
                signals.remove(signal)
            if not signals:
                self._signals.pop(name, None)
                self._seen.pop(name, None)

    async def _look(self) -> None:
        while not await self._world.wait(self._ended, self._world.now() + LOOK_S):
            with self._mutex:
                if not self._signals:
                    self._job = None
                    return
                names = list(self._signals)
            try:
                changes = await self._memos.changes(names)
            except FencelockError:  # those who observe meet the same when they look by themselves
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
