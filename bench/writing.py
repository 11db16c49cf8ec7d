"""Contestants of the work "guards": who writes to a resource, with a guard or without.

There are two for each resource, of one field: the bare write is the yardstick, and the guarded one
has it in its targets. A class says how to write once; the rest is here.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.contestant import Contestant, Session, Spent


class Writing(Contestant):
    """Writes the same thing again and again."""

    works = frozenset({"guards"})

    @abstractmethod
    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        """Open the resource and give what writes once: a whole transaction, where it has them."""

    def connect(self, *, traced: bool = False) -> Session:
        raise NotImplementedError("who writes takes no locks")

    def time_writes(self, counts: list[int]) -> list[Spent]:
        """Write so many times; one figure for each batch."""
        with self.writer() as write:
            return [_time(write, count) for count in counts]


def _time(write: Callable[[], object], count: int) -> Spent:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        write()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)
