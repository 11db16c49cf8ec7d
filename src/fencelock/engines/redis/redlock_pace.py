"""When a waiter of a Redlock looks again. Nobody calls it: independent nodes have no common queue.

Several that try at once can split the votes: then all try again soon, each after another random
moment. While somebody holds the lock a waiter looks ever more rarely, and when the lease would end.
"""

from __future__ import annotations

from collections.abc import Callable

from ...model import Busy
from . import quorum
from .redlock_answers import is_refusal, refusal
from .round import Round

LOOK_MIN_S, LOOK_MAX_S = 0.02, 0.25  # between two looks of a waiter, longer the longer it waits
SPLIT_S = 0.03  # before trying again when several tried at once and nobody has a majority


class Pace:
    """How often each waiter of one client has looked."""

    def __init__(self, random: Callable[[], float], need: int) -> None:
        self._random = random
        self._need = need
        self._looks: dict[str, int] = {}

    def begin(self, owner: str) -> None:
        """This owner waits."""
        self._looks[owner] = 1

    def end(self, owner: str) -> None:
        """It waits no more."""
        self._looks.pop(owner, None)

    def split(self) -> Busy:
        """Soon: several tried at once."""
        return Busy(SPLIT_S * self._random())

    def busy(self, owner: str, grants: int, round: Round) -> Busy:
        """After an attempt that so many nodes have granted, which is too few."""
        refusals = [refusal(answer) for answer in round.answers if is_refusal(answer)]
        silent = len(round.answers) - grants - len(refusals)
        if not quorum.is_held(refusals, silent, self._need):
            return self.split()
        chance = self._random()
        looks = self._looks.get(owner, 0)
        if looks:
            self._looks[owner] = looks + 1
        look_in = min(LOOK_MIN_S * 1.5 ** min(looks, 20), LOOK_MAX_S) * (0.5 + chance)
        free_in = quorum.free_in(refusals, self._need - grants) + SPLIT_S * chance
        return Busy(min(look_in, free_in), holder=max(one.meta for one in refusals))
