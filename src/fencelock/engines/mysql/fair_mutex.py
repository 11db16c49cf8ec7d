"""A mutex that is passed on in the order of arrival, in either flavor.

An exception of a signal handler may end whoever has it at any step. So a turn lasts for as long as
somebody knows it, and no longer.
"""

from __future__ import annotations

from collections import deque
from weakref import ReferenceType, ref

from ...world import Signal, World

LOOK_S = 0.1  # how often who waits looks whether a turn was lost


class Permit:
    """The right to be the only one."""

    __slots__ = ("__weakref__",)


class FairMutex:
    """Whoever has acquired it keeps the others out until it releases it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._turn: ReferenceType[Permit] | None = None
        self._queue: deque[tuple[Signal, Permit]] = deque()

    def try_acquire(self) -> Permit | None:
        """Acquire it if nobody has it."""
        with self._mutex:
            if self._is_taken():
                return None
            turn = Permit()
            self._turn = ref(turn)
            return turn

    def _is_taken(self) -> bool:
        return self._turn is not None and self._turn() is not None

    async def acquire(self, deadline: float) -> Permit | None:
        """Wait for one's turn; None when the deadline came first."""
        with self._mutex:
            turn = Permit()
            if not self._is_taken():
                self._turn = ref(turn)
                return turn
            signal = self._world.signal()
            self._queue.append((signal, turn))
        acquired = False
        try:
            acquired = await self._wait(signal, deadline)
        finally:
            if not acquired and not self._leave(signal, turn):
                self.release(turn)  # it was our turn just now
        return turn if acquired else None

    async def _wait(self, signal: Signal, deadline: float) -> bool:
        while not signal.is_set():
            now = self._world.now()
            if now >= min(deadline, self._world.limit()):
                return False
            if not await self._world.wait(signal, min(deadline, now + LOOK_S)):
                with self._mutex:
                    if not self._is_taken():
                        self._pass_on()
        return True

    def _leave(self, signal: Signal, turn: Permit) -> bool:
        with self._mutex:
            if (signal, turn) not in self._queue:
                return False
            self._queue.remove((signal, turn))
            return True

    def release(self, turn: Permit) -> None:
        """Pass it on to the next."""
        with self._mutex:
            if self._turn is not None and self._turn() is turn:
                self._turn = None
                self._pass_on()

    def _pass_on(self) -> None:
        if self._queue:
            signal, turn = self._queue.popleft()
            self._turn = ref(turn)
            signal.set()
