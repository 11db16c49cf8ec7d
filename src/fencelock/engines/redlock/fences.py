"""Propose fences: from the nodes' clocks, and above all that this client has seen.

A proposal is only likely to be high enough; the nodes take it or return the fence that they have
seen. So it need not be right: a wrong clock costs a second round trip, never the order of the
fences.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Misconfigured
from ...model import FENCE_MAX, next_fence
from . import quorum
from .fanout import Broadcast
from .votes import is_grant, listed

LEARN_S = 1.0  # between two looks at the nodes' clocks


class Fences:
    """What one client knows of fences and of the nodes' clocks."""

    def __init__(self) -> None:
        self._highest = 0
        """The highest fence that this client has proposed or seen."""
        self._ahead_us = 0
        """Microseconds by which the nodes' clocks are ahead of ours."""
        self._learned_at = 0.0

    def propose(self, now: float) -> int:
        """Return a fence that is likely above all that any client has drawn before."""
        self._highest = next_fence(self._highest, int(now * 1e6) + self._ahead_us)
        return self._highest

    def above(self, seen: Sequence[int]) -> int:
        """Return a fence above all that these nodes have seen."""
        highest = max(self._highest, *seen)
        if highest >= FENCE_MAX:
            raise Misconfigured(
                "a node has a fence on record that is as high as fences go, which no client of "
                "ours has drawn; nothing is held. Remove the record of this name at all nodes, or "
                "choose another name"
            )
        self._highest = next_fence(highest, 0)
        return self._highest

    def begin(self, times: Broadcast, asked_at: float) -> None:
        """Learn the offset of the nodes' clocks from their replies to ``TIME``."""
        answers = [time for time in map(listed, times.answers) if time]
        clocks = [int(seconds) * 1_000_000 + int(micros) for seconds, micros in answers]
        self._ahead_us = quorum.middle(clocks) - int(asked_at * 1e6)

    def learn(self, grants: Broadcast, asked_at: float) -> None:
        """Now and then, learn the offset of the nodes' clocks from their grants."""
        if asked_at - self._learned_at > LEARN_S:
            clocks = [int(answer[3]) for answer in grants.answers if is_grant(answer)]
            self._ahead_us = quorum.middle(clocks) - int(asked_at * 1e6)
            self._learned_at = asked_at
