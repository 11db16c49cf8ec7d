"""A door that one at a time passes, in the order in which they came, in either flavor.

An exception of a signal handler may end whoever is inside at any step. So a turn lasts for as long
as somebody knows it, and no longer.
"""

from __future__ import annotations

from collections import deque
from weakref import ReferenceType, ref

from ...world import Signal, World

LOOK_S = 0.1  # how often who waits looks whether a turn was lost


class Turn:
    """The right to be inside."""

    __slots__ = ("__weakref__",)


class Gate:
    """Whoever has entered keeps the others out until it leaves."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._inside: ReferenceType[Turn] | None = None
        self._queue: deque[tuple[Signal, Turn]] = deque()

    def try_enter(self) -> Turn | None:
        """Enter if nobody is inside."""
        with self._mutex:
            if self._is_taken():
                return None
            turn = Turn()
            self._inside = ref(turn)
            return turn

    def _is_taken(self) -> bool:
        return self._inside is not None and self._inside() is not None

    async def enter(self, deadline: float) -> Turn | None:
        """Wait for one's turn; None when the deadline came first."""
        with self._mutex:
            turn = Turn()
            if not self._is_taken():
                self._inside = ref(turn)
                return turn
            signal = self._world.signal()
            self._queue.append((signal, turn))
        entered = False
        try:
            entered = await self._wait(signal, deadline)
        finally:
            if not entered and not self._give_up(signal, turn):
                self.leave(turn)  # it was our turn just now
        return turn if entered else None

    async def _wait(self, signal: Signal, deadline: float) -> bool:
        while not signal.is_set():
            now = self._world.now()
            if now >= min(deadline, self._world.limit()):
                return False
            if not await self._world.wait(signal, min(deadline, now + LOOK_S)):
                with self._mutex:
                    if not self._is_taken():
                        self._let_in()
        return True

    def _give_up(self, signal: Signal, turn: Turn) -> bool:
        with self._mutex:
            if (signal, turn) not in self._queue:
                return False
            self._queue.remove((signal, turn))
            return True

    def leave(self, turn: Turn) -> None:
        """Let the next one in."""
        with self._mutex:
            if self._inside is not None and self._inside() is turn:
                self._inside = None
                self._let_in()

    def _let_in(self) -> None:
        if self._queue:
            signal, turn = self._queue.popleft()
            self._inside = ref(turn)
            signal.set()
