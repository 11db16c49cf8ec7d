"""Calls that are cancelled at their first await, then at their second, and what is left of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fencelock import AcquireTimeout, aio
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults
from tests.faults.held import WHATS, Company, What
from tests.faults.stepping import CancelAt

DELAYS = {"no delay": 0.0, "a slow engine": 0.003}


LOCK = WHATS["lock"]
ALONE = Company(set())


@asynccontextmanager
async def clients(url: str, delay: float) -> AsyncIterator[tuple[aio.Client, aio.Client]]:
    """One whose engine is slow, and one that sees what the first has left behind."""
    faults = Faults()
    async with await faulty.connect_aio(url, faults) as slow, aio.connect(url) as fresh:
        if delay:
            faults.delay(*faulty.VERBS, before=delay, after=delay)
        yield slow, fresh
        faults.heal()


async def assert_nothing_is_left(
    fresh: aio.Client, where: str, what: What = LOCK, company: Company = ALONE
) -> None:
    """A fresh client gets the lock at once, or what it keeps out; nobody stands in the queue."""
    state = await fresh.inspect("seat")
    assert (company.holders(state), state.waiters) == ([], ()), where
    for lock in {what.kind: what.of(fresh), what.rival_kind: what.rival(fresh)}.values():
        lease = await lock.try_acquire()
        assert lease is not None, where
        assert await lease.release() is True


class Sweep:
    """Cancels an acquire at its first await, then at its second …, until it ends by itself.

    ``before`` sets the scene for each run, ``after`` looks at what is left.
    """

    def __init__(self, lock: aio.Lock, way: str) -> None:
        self._lock = lock
        self._way = way

    async def before(self) -> None:
        """Nothing to prepare."""

    async def after(self, where: str) -> None:
        raise NotImplementedError

    async def run(self) -> int:
        """Return at how many awaits it was cancelled."""
        for place in range(100):
            await self.before()
            step = CancelAt(self._lock.acquire(), place, self._way)
            try:
                lease = await step.run()
            except asyncio.CancelledError:
                assert step.hit
            except AcquireTimeout:
                pass
            else:
                assert not step.hit, "a cancellation was swallowed"
                await lease.release()
            await self.after(f"cancelled {self._way} at await no. {place}")
            if not step.hit:
                return place
        raise AssertionError("the acquire never ended by itself")
