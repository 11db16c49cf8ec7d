"""What a work is: a task for every contestant, and the figures it yields."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from bench.contestant import Contestant


class Column(NamedTuple):
    """One figure of a work."""

    key: str
    title: str
    worst: bool = False
    """The highest of all rounds counts, not the median: one breach is one too many."""


class Work(ABC):
    """A task to be timed. The first column is the one that ratios are made of."""

    name: ClassVar[str]
    title: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]]
    rounds: ClassVar[int]
    rounds_quick: ClassVar[int] = 1

    @abstractmethod
    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        """Do it once, in bounded time, and return its figures by column.

        A column that says nothing about a contestant is left out.
        """
