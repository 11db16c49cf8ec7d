"""A mutex that is passed on in the order of arrival, in either flavor.

An exception of a signal handler may end the call that has it at any step. So a permit is valid only
as long as some reference to it exists.
"""

from __future__ import annotations

from collections import deque
from weakref import ReferenceType, ref

from ...world import Signal, World

CHECK_S = 0.1  # how often a waiting caller checks whether a permit was lost


class Permit:
    """The ownership of a ``FairMutex``."""

    __slots__ = ("__weakref__",)


class FairMutex:
    """A mutex: one permit is valid at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._turn: ReferenceType[Permit] | None = None
        self._queue: deque[tuple[Signal, Permit]] = deque()

    def try_acquire(self) -> Permit | None:
        """Acquire the mutex if it is free; else return None."""
        with self._mutex:
            if self._is_taken():
                return None
            turn = Permit()
            self._turn = ref(turn)
            return turn

    def _is_taken(self) -> bool:
        return self._turn is not None and self._turn() is not None

    async def acquire(self, deadline: float) -> Permit | None:
        """Acquire the mutex, and wait for it; None when the deadline came first."""
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
                self.release(turn)  # the permit became valid just now
        return turn if acquired else None

    async def _wait(self, signal: Signal, deadline: float) -> bool:
        while not signal.is_set():
            now = self._world.now()
            if now >= min(deadline, self._world.limit()):
                return False
            if not await self._world.wait(signal, min(deadline, now + CHECK_S)):
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
        """Release the mutex to the first caller in the queue, if this permit is valid."""
        with self._mutex:
            if self._turn is not None and self._turn() is turn:
                self._turn = None
                self._pass_on()

    def _pass_on(self) -> None:
        if self._queue:
            signal, turn = self._queue.popleft()
            self._turn = ref(turn)
            signal.set()
