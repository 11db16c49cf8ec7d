"""Elect a leader: the holder of the lock of a name leads, until its term ends.

A term is a lease, and its fence is the epoch: it grows with every term, so that a guard at the
resource refuses a leader that was frozen and does not know of its successor. The leader is read
from the holder of the lock, so others see an election as a lock of that name. An entry of its meta
tells listings that it is an election; nothing is decided by it.

* A client that has won or resigned announces it. That is a hint for observers: they look at the
  holder, now and then without a hint, and at the end of the time that the leader had left.
* A term that was lost is followed by another campaign, whatever the work has returned meanwhile.
"""

from __future__ import annotations

import json
from typing import TypeVar

from .. import observe
from .._client import policy
from .._client.facade import Cores, LeaseBase
from .._client.lock_options import LockSpec
from .._client.validation import META_BYTES_MAX
from ..errors import LeaseLost, OutcomeUnknown, StaleFence, Unavailable
from ..model import ELECTION, RECIPE, Holding
from ..world import sleep
from .board import Board, Observer

LEADERLESS_LOOK_S = 60.0
"""Bounds the wait while there is no leader whose term ends; ``Observer`` looks sooner."""

L = TypeVar("L", bound=LeaseBase)


class LeaderElection:
    """The election of one name, as one client takes part in it."""

    def __init__(self, cores: Cores, name: str, ttl: float) -> None:
        self.board = Board(cores, name)
        self._ttl = ttl
        self._term: LeaseBase | None = None
        """The term that was won last: a program that campaigns need not keep it to resign."""
        self._warned = False

    async def won(self, term: L) -> L:
        """Remember that this term is ours, announce it, and return it."""
        self._term, self._warned = term, False
        try:
            await self.board.announce()
        except BaseException:  # a cancellation, or of a signal handler: nobody gets this term
            await self.release(term)
            raise
        return term

    async def resign(self) -> bool:
        """Release the term that was won last, if there is one; True when this freed the lock."""
        term, self._term = self._term, None
        if term is None:
            return False
        try:
            freed = await self.release(term)
        except BaseException:
            self._term = term  # so that it may be called again
            raise
        await self.board.announce()
        return freed

    async def release(self, term: LeaseBase) -> bool:
        """Release a term, even one that was entered again."""
        hold = term._hold  # pyright: ignore[reportPrivateUsage]
        return await self.board.core.lifecycle.release(hold, entirely=True)

    async def leader(self) -> Holding | None:
        """Return the present leader, or None."""
        return leader_of((await self.board.inspect()).holders)

    async def outlast(self, error: Unavailable | OutcomeUnknown) -> None:
        """Wait for a moment in an outage of the engine, and warn of it once."""
        if not self._warned:
            self._warned = True
            observe.warn(f"the campaign for {self.board.name!r} goes on: {error}")
        await sleep(self.board.core.world, policy.RETRY_MAX_S)

    def watch(self) -> LeaderWatch:
        """Return a watch of the leader."""
        return LeaderWatch(self.board, self._ttl)


def as_election(spec: LockSpec) -> LockSpec:
    """Mark a lock as an election, for listings, if that entry fits beside the caller's meta."""
    words = {RECIPE: ELECTION, **spec.meta}
    return spec._replace(meta=words) if len(json.dumps(words)) <= META_BYTES_MAX else spec


def leader_of(holders: tuple[Holding, ...]) -> Holding | None:
    """Return the holder of the lock, or None; a semaphore of the same name is something else."""
    return next((holding for holding in holders if holding.role == "lock"), None)


def is_succeeded(term: LeaseBase, error: Exception) -> bool:
    """Return whether work ended because its term was lost, so that another campaign follows."""
    return isinstance(error, LeaseLost | StaleFence) and term.reason is not None


class LeaderWatch:
    """Reports every change of the leader that it sees."""

    def __init__(self, board: Board, ttl: float) -> None:
        self._board = board
        self._observer = Observer(board, ttl)
        self._told: tuple[int | None] | None = None
        """The fence of the leader that was reported last; None before the first report."""
        self._look_at = 0.0

    async def begin(self) -> None:
        await self._observer.begin()

    async def next(self) -> Holding | None:
        """Return the leader or None: at once the first time, then after every change."""
        world = self._board.core.world
        while True:
            if self._look_at:
                await self._observer.wait(self._look_at)
            try:
                leader = leader_of((await self._board.inspect()).holders)
            except Unavailable as error:
                self._observer.bear(error)
                self._look_at = world.now() + policy.RETRY_MAX_S
                continue
            self._observer.is_reached()
            left = LEADERLESS_LOOK_S if leader is None else max(leader.remaining, 0.0)
            self._look_at = world.now() + max(left, policy.LOOK_MIN_S)
            seen = (None if leader is None else leader.fence,)
            if seen != self._told:
                self._told = seen
                return leader

    async def end(self) -> None:
        await self._observer.end()
