"""Evaluate the answers of several nodes, by pure arithmetic: who has a majority, which fence.

Nothing here sends or waits. A majority is always a majority of the configured nodes: counting only
those that can be reached would let two halves of a network both grant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import EngineError


def majority(nodes: int) -> int:
    """Return how many of the nodes must agree: any two such groups share a node."""
    return nodes // 2 + 1


class Ballot:
    """Counts yes and no, and tells when no further answer can change the outcome."""

    __slots__ = ("_is_yes", "_left", "_need", "_no", "_spare", "_yes")

    def __init__(self, nodes: int, is_yes: Callable[[Any], bool]) -> None:
        self._is_yes = is_yes
        self._need = majority(nodes)
        self._spare = nodes - self._need
        self._left = nodes
        self._yes = self._no = 0

    def count_vote(self, answer: object) -> bool:
        """Count an answer; return whether the outcome is settled now."""
        self._left -= 1
        if not isinstance(answer, Exception):
            if self._is_yes(answer):
                self._yes += 1
            else:
                self._no += 1
        if self._yes >= self._need or self._no > self._spare:
            return True
        return self._yes + self._left < self._need and self._no + self._left <= self._spare

    @property
    def outcome(self) -> bool | None:
        """True or False where nodes have said so, None where too few have answered."""
        if self._yes >= self._need:
            return True
        return False if self._no > self._spare else None


class Everyone:
    """Settled when each node has answered, whatever the answer."""

    def __init__(self, nodes: int) -> None:
        self._left = nodes

    def count_vote(self, answer: object) -> bool:
        self._left -= 1
        return not self._left


class Renewal:
    """Counts, for each grant of a batch, the nodes that extended it and those that do not have it.

    A node answers with the indexes of the grants that are gone, each followed by a reason, which
    may be empty.
    """

    def __init__(self, nodes: int, grants: int) -> None:
        self.need = majority(nodes)
        self.spare = nodes - self.need
        self.answers = 0
        self.failed = 0
        self.gone = [0] * grants
        self.reasons: dict[int, str] = {}

    def count_vote(self, answer: Any) -> bool:
        """Count an answer; return whether every grant is settled, or no more answers can come."""
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
            self.outcome(number) is not None for number in range(len(self.gone))
        )

    def outcome(self, number: int) -> bool | None:
        """Return True for a grant that a majority extended, False for one that cannot have one any
        more, None where neither is known."""
        gone = self.gone[number]
        if self.answers - gone >= self.need:
            return True
        return False if gone > self.spare else None


class Election:
    """Counts the answers to an attempt: the nodes that granted the key, and the fences there.

    A fence can be handed out when a majority has it on record for us: each of those nodes took it
    only because it was above all that the node had seen. Any earlier holder's fence is on record at
    a majority too, and the two majorities share a node.
    """

    __slots__ = (
        "_counts", "_left", "_need", "_spare",
        "failed", "fence", "fence_too_low", "grants", "lost", "no"
    )  # fmt: skip

    def __init__(self, nodes: int) -> None:
        self._need = majority(nodes)
        self._spare = nodes - self._need
        self._left = nodes
        self._counts: dict[bytes, int] = {}
        self.grants = self.fence_too_low = self.no = 0
        self.failed = 0
        """Nodes that certainly did not get the request."""
        self.lost = 0
        """Nodes that may have got it."""
        self.fence: int | None = None
        """The fence that can be handed out, once a majority has it on record."""

    def count_vote(self, answer: Any) -> bool:
        """Count an answer; return whether the outcome is settled now."""
        self._left -= 1
        if answer.__class__ is not list:
            if isinstance(answer, EngineError):
                self.failed += 1
            else:
                self.lost += 1
        elif answer[0] == 0:
            self.no += 1
        else:
            self.grants += 1
            if answer[2] == 1:
                fence: bytes = answer[1]
                count = self._counts[fence] = self._counts.get(fence, 0) + 1
                if count == self._need:
                    self.fence = int(fence)
                    return True
            else:
                self.fence_too_low += 1
            if self.fence_too_low and self.grants >= self._need:
                return True  # a higher fence is needed: no use in waiting for the others
        answered = self.grants + self.no
        if self._left and answered < self._need and self.failed <= self._spare:
            return False  # whether it is held by another is not known yet
        return self.no + self.failed + self.lost > self._spare or not self._left

    @property
    def answered(self) -> int:
        """How many nodes have voted, for us or for another."""
        return self.grants + self.no

    @property
    def impossible(self) -> bool:
        """Whether so many nodes have not granted it, and will not, that no majority is possible."""
        return self.no + self.failed > self._spare


def middle(numbers: Iterable[int]) -> int:
    """Return the median of the nodes' clocks: a single wrong one does no harm."""
    found = sorted(numbers)
    return found[(len(found) - 1) // 2]


class Refusal(NamedTuple):
    """What a node that did not grant the key tells of its holder."""

    left: float
    """Seconds until it expires there; infinite where it does not."""
    holder: bytes
    meta: str


def is_held(refusals: Sequence[Refusal], silent: int, need: int) -> bool:
    """Return whether one other may have a majority; else several are trying and none has it."""
    holders = [refusal.holder for refusal in refusals]
    return any(holders.count(holder) + silent >= need for holder in holders)


def free_in(refusals: Sequence[Refusal], needed: int) -> float:
    """Return the seconds until so many more nodes would be free if nobody renewed."""
    ends = sorted(refusal.left for refusal in refusals)
    return ends[needed - 1] if 0 < needed <= len(ends) else 0.0


class NodeView(NamedTuple):
    """What a node knows of a name."""

    holder: bytes
    left: float
    record: str
    clock_ms: int


class Holder(NamedTuple):
    """The owner that has the key at a majority of the nodes, or may have it."""

    value: bytes
    views: tuple[NodeView, ...]
    """What the nodes know that it holds, the longest lasting first."""
    remaining: float
    """Seconds until it would have no majority any more, at the latest."""


def holder_of(views: Sequence[NodeView], silent: int, need: int) -> Holder | None:
    """Return the owner that has a majority, if silent nodes are counted in its favor."""
    counts = Counter(view.holder for view in views if view.holder)
    if not counts:
        return None
    value, count = counts.most_common(1)[0]
    if count + silent < need:
        return None
    seen = sorted((v for v in views if v.holder == value), key=lambda v: v.left, reverse=True)
    return Holder(value, tuple(seen), seen[max(0, need - silent - 1)].left)
