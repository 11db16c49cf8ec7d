"""Let a number of parties wait for each other, again and again.

Each party holds a slot of a semaphore with as many slots as there are parties, so that the fences
of the waiting parties say in which order they came. A party that sees all slots held by waiting
parties writes the highest fence of them, ``through``: every party up to that fence passes, and
releases its slot. Parties that come for the next time get a slot, and a higher fence, when one is
free.

* Fences above ``through`` belong to parties that wait: nobody passes before it is written. It is
  read *after* the holders were, and only grows: so it was no higher when they were read, and none
  of those above it had passed by then. If they are as many as there are slots, all have come.
* Two parties may both see this. The fences they write differ only if a party had given up in
  between, and then all parties that either of them saw have come; the higher one counts.
* A party that crashed leaves when its ttl is over: until then it has come. One whose lease was lost
  does not pass, because nobody can tell whether another came in its stead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import observe
from .._client.facade import Cores
from .._client.hold_state import HoldState
from .._client.lock_options import LockSpec
from .._client.validation import LIMIT_MAX, check_name, check_timeout
from ..errors import AcquireTimeout, FencelockError, Unavailable
from ..model import Busy
from ..world import GRACE_S, NO_LIMIT
from .board import Board, Observer, check_count, demand_memory

if TYPE_CHECKING:
    from .._client.facade import AnyCore

KEEP_S = 3600.0
THROUGH = "through"


def slots_name(name: object, parties: object) -> str:
    """Return the name of a barrier's semaphore, under which listings show the barrier."""
    check_count(parties, "parties", LIMIT_MAX)
    return f"barrier:{check_name(name)}"


class Rendezvous:
    """The barrier of one name, as one client takes part in it."""

    def __init__(self, cores: Cores, name: str, spec: LockSpec) -> None:
        demand_memory(cores, "a barrier")
        assert spec.share is not None
        self._name = name
        self._spec = spec
        self._parties = spec.share.limit
        self._board = Board(cores, spec.name)

    async def wait(self, timeout: float | None) -> int:
        """Wait until all parties have come, and return our slot."""
        core = self._board.core
        timeout = check_timeout(timeout)
        deadline = NO_LIMIT if timeout is None else core.world.now() + timeout
        answer = await core.attempt(self._spec, timeout)
        if isinstance(answer, Busy):
            raise self._not_all(timeout)
        hold: HoldState = answer._hold
        observer = Observer(self._board, self._spec.ttl)
        try:
            passed = await self._wait(core, hold, observer, deadline)
        finally:
            await self._leave(core, hold, observer, min(core.world.now(), deadline) + GRACE_S)
        if not passed and await self._through(deadline + GRACE_S) < hold.grant.fence:
            raise self._not_all(timeout)
        assert hold.grant.share is not None
        return hold.grant.share.slot or 0

    async def _wait(
        self, core: AnyCore, hold: HoldState, observer: Observer, deadline: float
    ) -> bool:
        """Wait until this party may pass; False when the deadline has passed."""
        await observer.begin(deadline + GRACE_S)
        while True:
            try:
                if await self._have_all_come(hold.grant.fence, deadline + GRACE_S):
                    core.lifecycle.check(hold)
                    return True
                observer.is_reached()
            except Unavailable as error:
                observer.bear(error)
            core.lifecycle.check(hold)
            if core.world.now() >= deadline:
                return False
            await observer.wait(deadline)

    async def _have_all_come(self, fence: int, limit: float) -> bool:
        """Return whether this party may pass. If it sees that all have come, it lets them pass."""
        holders = (await self._board.inspect(limit)).holders
        through = await self._through(limit)
        if fence <= through:
            return True
        here = [h.fence for h in holders if h.role == "semaphore" and h.fence > through]
        if len(here) < self._parties or fence not in here:
            return False
        keep = max(KEEP_S, 10 * self._spec.ttl)
        await self._board.remember(THROUGH, max(here), keep, limit)
        await self._board.announce(limit)
        return True

    async def _through(self, limit: float) -> int:
        return (await self._board.recall(limit)).get(THROUGH, 0)

    async def _leave(
        self, core: AnyCore, hold: HoldState, observer: Observer, limit: float
    ) -> None:
        """Release the slot. A failure only makes the next party wait: it is no reason to raise."""
        try:
            await core.lifecycle.release(hold, limit=limit)
        except FencelockError as error:
            observe.warn(f"a party of the barrier {self._name!r} keeps its slot for now: {error}")
        finally:
            await observer.end(limit)

    def _not_all(self, timeout: float | None) -> AcquireTimeout:
        return AcquireTimeout(
            f"not all {self._parties} parties came to the barrier {self._name!r} in "
            f"{timeout or 0:.3g} s; we have left it",
            name=self._name,
            timeout=timeout,
        )
