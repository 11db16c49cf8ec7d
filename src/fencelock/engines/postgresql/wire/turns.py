"""Threads that take turns, and seats of which there are only so many.

An exception from a signal handler may come at any moment: between having a lock and the statement
that would give it back, and even in the midst of that one. So a turn or a seat belongs to an
object of the call that has it. Once nobody has that object any more, or the call that made it has
ended, the turn is over. A traceback may keep both for long.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from types import FrameType

NAP_S = 0.05  # as often do those who wait look for a turn that nobody gave back


class Ticket:
    """What a turn or a seat belongs to: to the call whose frame it has, if it has one."""

    __slots__ = ("__weakref__", "frame")

    def __init__(self, frame: FrameType | None = None) -> None:
        self.frame = frame

    def is_over(self) -> bool:
        """Whether its call has ended without giving it back."""
        if self.frame is None:
            return False
        try:
            self.frame.clear()
        except RuntimeError:
            return False  # it is still executed, by whatever thread
        return True


class Turns:
    """So many tickets are valid at a time."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._valid: list[weakref.ref[Ticket]] = []
        self._waiting: deque[threading.Lock] = deque()

    def try_take(self, ticket: Ticket) -> bool:
        """Make a ticket valid, if there is room."""
        mine = weakref.ref(ticket)
        with self._mutex:
            if len(self._valid) >= self._most:
                self._valid = [other for other in self._valid if not _is_over(other())]
                if len(self._valid) >= self._most:
                    return False
            self._valid.append(mine)
            return True

    def take(self, ticket: Ticket, seconds: float) -> bool:
        """The same, and wait for it."""
        if self.try_take(ticket):
            return True
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            self.nap(left)
            if self.try_take(ticket):
                return True
        return False

    def nap(self, seconds: float) -> None:
        """Wait until there may be room, for a moment at most."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiting.append(waiter)
        try:
            if len(self._valid) >= self._most:
                waiter.acquire(timeout=min(seconds, NAP_S))
        finally:
            try:
                self._waiting.remove(waiter)
            except ValueError:
                pass  # it was woken

    def give(self, ticket: Ticket) -> None:
        """It is valid no more, if it was."""
        ticket.frame = None
        with self._mutex:
            for index, other in enumerate(self._valid):
                if other() is ticket:
                    del self._valid[index]
                    break
        self.wake()

    def wake(self) -> None:
        """Let somebody look again."""
        if self._waiting:
            try:
                self._waiting.popleft().release()
            except (IndexError, RuntimeError):
                pass  # it has left by itself


def _is_over(ticket: Ticket | None) -> bool:
    return ticket is None or ticket.is_over()
