"""Decisions over the answers of several nodes, as pure arithmetic: who has a majority, what fence.

Nothing here sends or waits. A majority is always one of the nodes that are configured: counting
only those that can be reached would let two halves of a network both grant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median_low
from typing import Any, NamedTuple

from ...model import next_fence


def majority(nodes: int) -> int:
    """How many of so many nodes must agree: any two such groups share a node."""
    return nodes // 2 + 1


class Ballot:
    """Counts answers as they come, and knows when no further one can change the outcome."""

    __slots__ = ("_is_yes", "failed", "need", "no", "spare", "yes")

    def __init__(self, nodes: int, is_yes: Callable[[Any], bool]) -> None:
        self._is_yes = is_yes
        self.need = majority(nodes)
        self.spare = nodes - self.need
        self.yes = self.no = self.failed = 0

    def cast(self, answer: object) -> bool:
        """Count an answer; whether it is settled now."""
        if isinstance(answer, Exception):
            self.failed += 1
        elif self._is_yes(answer):
            self.yes += 1
        else:
            self.no += 1
        return self.yes >= self.need or self.no + self.failed > self.spare

    @property
    def carried(self) -> bool | None:
        """True or False where nodes have said so, None where too few have answered."""
        if self.yes >= self.need:
            return True
        return False if self.no > self.spare else None


class Renewal:
    """Counts, for each grant of a batch, the nodes that extended it and those that do not have it.

    A node answers with the numbers of those that are gone, each followed by a reason or nothing.
    """

    def __init__(self, nodes: int, grants: int) -> None:
        self.need = majority(nodes)
        self.spare = nodes - self.need
        self.answers = 0
        self.failed = 0
        self.gone = [0] * grants
        self.reasons: dict[int, str] = {}

    def cast(self, answer: Any) -> bool:
        """Count an answer; whether every grant is settled, or no further answer can come."""
        if isinstance(answer, Exception):
            self.failed += 1
        else:
            self.answers += 1
            for number, reason in zip(answer[::2], answer[1::2], strict=True):
                self.gone[number] += 1
                if reason:
                    self.reasons[number] = reason.decode()
        if self.answers + self.failed == self.need + self.spare:
            return True
        return self.answers >= self.need and all(
            self.carried(number) is not None for number in range(len(self.gone))
        )

    def carried(self, number: int) -> bool | None:
        """Whether a grant was extended at a majority, is gone at one, or neither is known."""
        gone = self.gone[number]
        if self.answers - gone >= self.need:
            return True
        return False if gone > self.spare else None


class Vote(NamedTuple):
    """What a node that granted the key says of the past."""

    fence: int
    """The last fence that it has heard of."""
    ours: bool
    """Whether that one was drawn for the same owner, in an attempt whose answer was lost."""
    clock_us: int


def draw(votes: Sequence[Vote]) -> int:
    """The fence for an owner that a majority has voted for.

    Any earlier holder wrote its fence to a majority, so one of these nodes has seen it. The clock
    lifts it above what was drawn before data was lost: the middle one of the nodes' clocks, so
    that one that is wrong does no harm. A fence that was drawn for this very owner is kept.
    """
    ours = max((vote.fence for vote in votes if vote.ours), default=0)
    others = max((vote.fence for vote in votes if not vote.ours), default=0)
    if ours > others:
        return ours
    return next_fence(others, median_low(vote.clock_us for vote in votes))


class Refusal(NamedTuple):
    """What a node that did not grant the key says of who has it."""

    left: float
    """Seconds until it expires there; infinite where it does not."""
    holder: bytes
    meta: str


def is_held(refusals: Sequence[Refusal], silent: int, need: int) -> bool:
    """Whether one other may have a majority; otherwise several are trying and nobody has it."""
    counts = Counter(refusal.holder for refusal in refusals)
    return bool(counts) and max(counts.values()) + silent >= need


def free_in(refusals: Sequence[Refusal], needed: int) -> float:
    """Seconds until so many more nodes would be free if nobody renewed."""
    ends = sorted(refusal.left for refusal in refusals)
    return ends[needed - 1] if 0 < needed <= len(ends) else 0.0


class Sight(NamedTuple):
    """What a node says of a name."""

    holder: bytes
    left: float
    record: str
    clock_ms: int


class Holder(NamedTuple):
    """Who has the key at a majority of the nodes, or may have it."""

    value: bytes
    sights: tuple[Sight, ...]
    """Where it was seen, that which lasts longest first."""
    remaining: float
    """Seconds until it would have no majority any more, at the latest."""


def holder_of(sights: Sequence[Sight], silent: int, need: int) -> Holder | None:
    """The one that has a majority, counting nodes that did not answer in its favor."""
    counts = Counter(sight.holder for sight in sights if sight.holder)
    if not counts:
        return None
    value, count = counts.most_common(1)[0]
    if count + silent < need:
        return None
    seen = sorted((s for s in sights if s.holder == value), key=lambda s: s.left, reverse=True)
    return Holder(value, tuple(seen), seen[max(0, need - silent - 1)].left)
