"""Elect a leader: whoever holds the lock of a name leads, until its term ends.

A term is a lease, and its fence is the epoch: it grows with every term, so that a guard at the
resource refuses a leader that was frozen and does not know of its successor. Who leads is read from
the holder of the lock, so an election is what others see of a lock of that name. A word of its meta
tells listings that it is one; nothing is decided by it.

* Whoever has won or resigned announces it. That is a hint for those who observe: they look at the
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

LOOK_S = 60.0  # the net under an observer, while there is no leader whose term ends
L = TypeVar("L", bound=LeaseBase)


class LeaderElection:
    """The election of one name, as one client takes part in it."""

    def __init__(self, cores: Cores, name: str, ttl: float) -> None:
        self.board = Board(cores, name)
        self._ttl = ttl
        self._term: LeaseBase | None = None
        """The term that was won last: whoever campaigns need not keep it in order to resign."""
        self._warned = False

    async def won(self, term: L) -> L:
        """Keep in mind which term is ours, and tell."""
        self._term, self._warned = term, False
        try:
            await self.board.announce()
        except BaseException:  # a cancellation, or of a signal handler: nobody gets this term
            await self.release(term)
            raise
        return term

    async def resign(self) -> bool:
        """Give back the term of this election, if it has one."""
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
        """Give a term back, entered again or not."""
        hold = term._hold  # pyright: ignore[reportPrivateUsage]
        return await self.board.core.lifecycle.release(hold, entirely=True)

    async def leader(self) -> Holding | None:
        """Who leads now."""
        return leader_of((await self.board.inspect()).holders)

    async def outlast(self, error: Unavailable | OutcomeUnknown) -> None:
        """Let a moment of an outage pass, and say once that there is one."""
        if not self._warned:
            self._warned = True
            observe.warn(f"the campaign for {self.board.name!r} goes on: {error}")
        await sleep(self.board.core.world, policy.RETRY_MAX_S)

    def watch(self) -> LeaderWatch:
        """Watch who leads."""
        return LeaderWatch(self.board, self._ttl)


def as_election(spec: LockSpec) -> LockSpec:
    """The lock of an election: listings show it as one, if the word fits beside the caller's."""
    words = {RECIPE: ELECTION, **spec.meta}
    return spec._replace(meta=words) if len(json.dumps(words)) <= META_BYTES_MAX else spec


def leader_of(holders: tuple[Holding, ...]) -> Holding | None:
    """The holder of the lock; a semaphore of the same name is something else."""
    return next((holding for holding in holders if holding.role == "lock"), None)


def is_succeeded(term: LeaseBase, error: Exception) -> bool:
    """Whether work ended because its term was lost, so that another campaign follows."""
    return isinstance(error, LeaseLost | StaleFence) and term.reason is not None


class LeaderWatch:
    """Tells of every change of the leader that it sees."""

    def __init__(self, board: Board, ttl: float) -> None:
        self._board = board
        self._observer = Observer(board, ttl)
        self._told: tuple[int | None] | None = None
        """The fence of the leader that was told last; None before the first."""
        self._look_at = 0.0

    async def begin(self) -> None:
        await self._observer.begin()

    async def next(self) -> Holding | None:
        """The leader at first, and then once another leads, or nobody does."""
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
            left = LOOK_S if leader is None else max(leader.remaining, 0.0)
            self._look_at = world.now() + max(left, policy.LOOK_MIN_S)
            seen = (None if leader is None else leader.fence,)
            if seen != self._told:
                self._told = seen
                return leader

    async def end(self) -> None:
        await self._observer.end()
