"""Exceptions from signal handlers, raised in the main thread at random moments of a call."""

from __future__ import annotations

import random
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

FIRST_S = 0.001
LONG_S = 0.05  # the longest into a call that a signal comes: those that wait would take for ever


class SoftLimit(Exception):
    """What Celery's soft time limit is: an ordinary exception that comes from nowhere."""


def pythons_own(error: RuntimeError) -> bool:
    """Whether it is what Python makes of the handler's exception: in Python 3.11, if it comes while
    a class is made; in any, if it comes in ``Condition.wait`` between its release and its ``try``,
    by which a thread's ``start()`` waits.
    """
    if isinstance(error.__cause__, (KeyboardInterrupt, SoftLimit)):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    by_ours = isinstance(error.__context__, (KeyboardInterrupt, SoftLimit))
    return by_ours and frames[-1].filename == threading.__file__


class Moments:
    """Makes calls, and lets a signal handler raise while they run.

    Some handlers raise a few times, also while the first exception is on its way, as an impatient
    Ctrl-C does.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.hits = 0
        self._armed: list[type[BaseException]] = []
        self._again: list[float] = []
        self._took: dict[str, float] = {}
        signal.signal(signal.SIGALRM, self._raise)

    def _raise(self, *_: object) -> None:
        if self._armed:
            self.hits += 1
            if self._again:
                signal.setitimer(signal.ITIMER_REAL, self._again.pop())
            raise self._armed[0](f"hit no. {self.hits}")

    def strike(self, what: str, call: Callable[[], T]) -> T | None:
        """Make a call; None if it was hit. Anything but the handler's exception goes through."""
        kind = self.chance.choice([KeyboardInterrupt, SoftLimit])
        began, hits = time.perf_counter(), self.hits
        delay = self.chance.uniform(1e-6, self._took.get(what, FIRST_S) * 1.3)
        more = self.chance.choice([0, 0, 1, 3])
        self._again = [self.chance.uniform(1e-6, 1e-4) for _ in range(more)]
        try:
            try:
                self._armed.append(kind)
                signal.setitimer(signal.ITIMER_REAL, delay)
                return call()
            finally:
                self._armed.clear()  # the first instruction here: nothing comes before it
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._learn(what, None if self.hits > hits else time.perf_counter() - began)
        except (KeyboardInterrupt, SoftLimit):
            return None
        except RuntimeError as error:
            if not pythons_own(error):
                raise
            return None

    def _learn(self, what: str, took: float | None) -> None:
        """Aim at the length of a call; when it was hit, later, so that not all of them are."""
        before = self._took.get(what, FIRST_S)
        self._took[what] = min(before * 1.1 if took is None else 0.5 * before + 0.5 * took, LONG_S)
