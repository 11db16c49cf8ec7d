"""A door that one at a time passes, in the order in which they came, in either flavor."""

from __future__ import annotations

from collections import deque

from ...world import Signal, World


class Gate:
    """Whoever has entered keeps the others out until it leaves."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._taken = False
        self._queue: deque[Signal] = deque()

    def try_enter(self) -> bool:
        """Enter if nobody is inside."""
        with self._mutex:
            if self._taken:
                return False
            self._taken = True
            return True

    async def enter(self, deadline: float) -> bool:
        """Wait for one's turn; False when the deadline came first."""
        with self._mutex:
            if not self._taken:
                self._taken = True
                return True
            signal = self._world.signal()
            self._queue.append(signal)
        entered = False
        try:
            entered = await self._world.wait(signal, deadline)
        finally:
            if not entered and not self._give_up(signal):
                self.leave()  # it was our turn just now
        return entered

    def _give_up(self, signal: Signal) -> bool:
        with self._mutex:
            if signal not in self._queue:
                return False
            self._queue.remove(signal)
            return True

    def leave(self) -> None:
        """Let the next one in."""
        with self._mutex:
            if self._queue:
                self._queue.popleft().set()
            else:
                self._taken = False
