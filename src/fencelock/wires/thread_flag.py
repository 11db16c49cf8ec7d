"""An event for threads that a signal handler may interrupt.

Not ``threading.Event``: an exception that a handler raises within it can leave its lock taken, or
released twice, and then every thread that waits for it or sets it is stuck.

Handlers run in the main thread, and a system may deliver a signal to another thread: then Python
does not wake the main thread. So the main thread wakes by itself every ``LOOK_S`` seconds.
"""

from __future__ import annotations

import math
import threading
import time

LOOK_S = 1.0


class ThreadFlag:
    """A flag that threads wait for. Each waiter makes a lock of its own: most flags need none."""

    __slots__ = ("_flag", "_waiters")

    def __init__(self) -> None:
        self._flag = False
        self._waiters: list[threading.Lock] = []

    def set(self) -> None:
        self._flag = True  # first: a new waiter looks at it after it can be woken
        if self._waiters:
            for waiter in list(self._waiters):
                try:
                    waiter.release()
                except RuntimeError:
                    pass  # this waiter was woken before, and has not left yet

    def clear(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        return self._flag

    def wait(self, seconds: float | None) -> bool:
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        try:
            if self._flag:
                return True
            if threading.current_thread() is not threading.main_thread():
                return waiter.acquire(timeout=-1 if seconds is None else seconds)
            left = math.inf if seconds is None else seconds
            while left > LOOK_S:
                began = time.monotonic()
                if waiter.acquire(timeout=LOOK_S):
                    return True
                left -= time.monotonic() - began
            return waiter.acquire(timeout=max(left, 0.0))
        finally:
            self._waiters.remove(waiter)
