"""Decide when a waiter looks again. Nobody notifies it: independent nodes have no common queue.

Several clients that try at once can split the votes: then all retry soon, each after a random
pause. While the lock is held a waiter looks ever more rarely, and when the lease would end.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model import Busy
from . import quorum
from .fanout import Broadcast
from .votes import is_refusal, refusal

LOOK_MIN_S, LOOK_MAX_S = 0.02, 0.25  # between two looks of a waiter, longer the longer it waits
SPLIT_S = 0.03  # at most, before a retry when several tried at once and none has a majority


class Backoff:
    """Counts how often each waiter of one client has looked."""

    def __init__(self, random: Callable[[], float], need: int) -> None:
        self._random = random
        self._need = need
        self._looks: dict[str, int] = {}

    def begin(self, owner: str) -> None:
        """Note that this owner waits."""
        self._looks[owner] = 1

    def end(self, owner: str) -> None:
        """Forget an owner that waits no more."""
        self._looks.pop(owner, None)

    def split(self) -> Busy:
        """Return when to look again after a split vote: soon, at a random moment."""
        return Busy(SPLIT_S * self._random())

    def busy(self, owner: str, grants: int, sent: Broadcast) -> Busy:
        """Return when to look again after an attempt that too few nodes (``grants``) granted."""
        refusals = [refusal(answer) for answer in sent.answers if is_refusal(answer)]
        silent = len(sent.answers) - grants - len(refusals)
        if not quorum.is_held(refusals, silent, self._need):
            return self.split()
        chance = self._random()
        looks = self._looks.get(owner, 0)
        if looks:
            self._looks[owner] = looks + 1
        look_in = min(LOOK_MIN_S * 1.5 ** min(looks, 20), LOOK_MAX_S) * (0.5 + chance)
        free_in = quorum.free_in(refusals, self._need - grants) + SPLIT_S * chance
        return Busy(min(look_in, free_in), holder=max(one.meta for one in refusals))
