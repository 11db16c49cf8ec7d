"""A semaphore for threads that survives an exception from a signal handler.

Such an exception may come at any moment: between taking a permit and the statement that would
return it, and even during that statement. So a permit is an object of the call that has it. Once
that object is no longer referenced, or the call that made it has ended, the permit is free again. A
traceback may keep both for long.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from types import FrameType

NAP_S = 0.05  # how often a waiting thread checks for permits that were never returned


class Permit:
    """A permit, and the frame of the call that has it, if there is one."""

    __slots__ = ("__weakref__", "frame")

    def __init__(self, frame: FrameType | None = None) -> None:
        self.frame = frame

    def is_over(self) -> bool:
        """Return whether its call has ended without returning the permit."""
        if self.frame is None:
            return False
        try:
            self.frame.clear()
        except RuntimeError:
            return False  # some thread still executes it
        return True


class Permits:
    """The permits of which so many are valid at a time, by default one."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._valid: list[weakref.ref[Permit]] = []
        self._waiting: deque[threading.Lock] = deque()

    def try_take(self, permit: Permit) -> bool:
        """Make a permit valid if one is free; return whether it was."""
        mine = weakref.ref(permit)
        with self._mutex:
            if len(self._valid) >= self._most:
                self._valid = [other for other in self._valid if not _is_over(other())]
                if len(self._valid) >= self._most:
                    return False
            self._valid.append(mine)
            return True

    def take(self, permit: Permit, seconds: float) -> bool:
        """Make a permit valid, and wait so many seconds for that; False if none was free."""
        if self.try_take(permit):
            return True
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0:
            self.nap(left)
            if self.try_take(permit):
                return True
        return False

    def nap(self, seconds: float) -> None:
        """Wait until a permit may be free, for ``NAP_S`` at most."""
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

    def give(self, permit: Permit) -> None:
        """Take a permit back, if it is valid."""
        with self._mutex:
            for index, other in enumerate(self._valid):
                if other() is permit:
                    del self._valid[index]
                    break
        permit.frame = None  # not before: a call interrupted above leaves a permit that is over
        self.wake()

    def wake(self) -> None:
        """Wake one waiting thread."""
        if self._waiting:
            try:
                self._waiting.popleft().release()
            except (IndexError, RuntimeError):
                pass  # it has stopped waiting by itself


def _is_over(permit: Permit | None) -> bool:
    return permit is None or permit.is_over()
