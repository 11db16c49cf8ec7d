"""What a work is: a task for every contestant, the figures it yields, our targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from bench.contestant import Contestant


class Column(NamedTuple):
    """One figure of a work."""

    key: str
    title: str
    worst: bool = False
    """The highest of all rounds counts, not the median: one breach is one too many."""


class Target(NamedTuple):
    """What a contestant of ours should reach: printed beside the figure, never asserted."""

    who: str
    key: str
    bound: Literal["at most", "at least"]
    limit: float
    versus: str = ""
    """The limit is a multiple of this contestant's figure."""


class Work(ABC):
    """A task to be timed. The first column is the one that ratios are made of."""

    name: ClassVar[str]
    title: ClassVar[str]
    columns: ClassVar[tuple[Column, ...]]
    versus: ClassVar[tuple[str, ...]] = ()
    """The contestants that all are compared with."""
    targets: ClassVar[tuple[Target, ...]] = ()
    rounds: ClassVar[int]
    rounds_quick: ClassVar[int] = 1

    @abstractmethod
    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        """Do it once, in bounded time, and return a figure for each column."""
