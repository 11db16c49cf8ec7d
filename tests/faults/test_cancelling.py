"""An acquire or a release that is given up while it is under way leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from fencelock import aio
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults
from tests.faults.flavors import SOON
from tests.faults.held import What
from tests.faults.stepping import WAYS, CancelAt
from tests.faults.sweeps import DELAYS, Sweep, assert_nothing_is_left, clients


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
def test_an_acquire_cancelled_at_any_await_leaves_no_orphan(
    url: str, what: What, delay: str, way: str
) -> None:
    """H09: the lock is free, so the engine may have granted it in the very moment of the cancel."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh), what.company(fresh) as company:

            class Free(Sweep):
                async def after(self, where: str) -> None:
                    await assert_nothing_is_left(fresh, where, what, company)

            awaits = await Free(what.of(slow, ttl=60), way).run()
            assert awaits > 0 or (url.startswith("memory") and not DELAYS[delay])

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
def test_a_waiter_cancelled_at_any_await_leaves_the_queue(
    url: str, what: What, delay: str, way: str
) -> None:
    """H09: cancelled while queued, up to the end of its own timeout. The holder is not touched."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh), what.company(fresh) as company:
            holder = await what.rival(fresh).acquire()

            class Queued(Sweep):
                async def after(self, where: str) -> None:
                    state = await fresh.inspect("seat")
                    assert state.waiters == (), where
                    held = [holding.fence for holding in company.holders(state)]
                    assert held == [holder.fence], where

            assert await Queued(what.of(slow, ttl=60, timeout=0.02), way).run() > 0
            assert await holder.release()
            await assert_nothing_is_left(fresh, "at the end", what, company)

    asyncio.run(main())


@pytest.mark.needs("waiters")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
def test_a_waiter_cancelled_while_the_lock_is_handed_to_it_leaves_no_orphan(
    url: str, what: What, delay: str, way: str
) -> None:
    """H09: the holder releases as soon as the waiter is queued: the lock may be the waiter's."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh), what.company(fresh) as company:

            class HandedOver(Sweep):
                async def before(self) -> None:
                    self.holder = await what.rival(fresh, ttl=60).acquire()
                    self.releasing = asyncio.create_task(release_when_queued(fresh, self.holder))

                async def after(self, where: str) -> None:
                    self.releasing.cancel()
                    await asyncio.wait({self.releasing})
                    await self.holder.release()
                    await assert_nothing_is_left(fresh, where, what, company)

            assert await HandedOver(what.of(slow, ttl=60), way).run() > 0

    asyncio.run(main())


async def release_when_queued(client: aio.Client, lease: aio.Lease) -> None:
    async with asyncio.timeout(SOON):
        while not (await client.inspect("seat")).waiters:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0)
    await lease.release()


@pytest.mark.parametrize("limit", ["wait_for", "timeout"])
def test_a_time_limit_around_acquire_leaves_no_orphan(url: str, limit: str) -> None:
    """H10: ``wait_for`` and ``timeout()`` cancel by the clock: swept over the whole acquire."""

    async def main() -> None:
        delay = 0.006
        async with clients(url, delay) as (slow, fresh):
            had, missed = 0, 0
            sweep = [step * delay / 8 for step in range(1, 33)]
            for seconds in (*sweep, 0.3, 3.0, 30.0):  # the last ones on a busy machine
                if had and seconds > sweep[-1]:
                    break
                try:
                    lease = await limited(limit, slow.lock("seat", ttl=60).acquire(), seconds)
                except TimeoutError:
                    missed += 1
                else:
                    had += 1
                    assert await lease.release() is True
                await assert_nothing_is_left(fresh, f"after {seconds:g} s")
            assert missed, "no acquire was cut short: the sweep shows nothing"
            assert had, "every acquire was cut short: the sweep shows nothing"

    asyncio.run(main())


async def limited(limit: str, work: Coroutine[Any, Any, aio.Lease], seconds: float) -> aio.Lease:
    if limit == "wait_for":
        return await asyncio.wait_for(work, seconds)
    async with asyncio.timeout(seconds):
        return await work


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("ending", ["release", "block"])
def test_a_release_cancelled_at_any_await_still_releases(
    url: str, what: What, delay: str, way: str, ending: str
) -> None:
    """H11: cancelled in ``release()`` or on the way out of ``async with``: the lock is free."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh), what.company(fresh) as company:

            async def release(lease: aio.Lease) -> None:
                if ending == "release":
                    await lease.release()
                else:
                    async with lease:
                        pass

            place = 0
            for place in range(100):
                lease = await what.of(slow, ttl=60).acquire()
                step = CancelAt(release(lease), place, way)
                try:
                    await step.run()
                except asyncio.CancelledError:
                    assert step.hit
                assert not lease
                where = f"cancelled {way} at await no. {place}"
                await assert_nothing_is_left(fresh, where, what, company)
                if not step.hit:
                    break
            assert place > 0

    asyncio.run(main())


@pytest.mark.needs("scan")
@pytest.mark.parametrize("way", WAYS)
def test_a_close_cancelled_at_any_await_still_releases(url: str, way: str) -> None:
    """H11: a client that is half closed must not go on renewing what nobody can release."""

    async def main() -> None:
        async with aio.connect(url) as fresh:
            place = 0
            for place in range(100):
                faults = Faults()
                client = await faulty.connect_aio(url, faults)
                leases = [await client.lock(f"seat:{n}", ttl=60).acquire() for n in range(3)]
                faults.delay(*faulty.VERBS, before=0.002, after=0.002)
                step = CancelAt(client.close(), place, way)
                try:
                    await step.run()
                except asyncio.CancelledError:
                    assert step.hit
                assert await fresh.scan() == [], f"cancelled {way} at await no. {place}"
                assert not any(leases)
                if not step.hit:
                    break
            assert place > 0

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_a_renewal_cancelled_at_any_await_keeps_the_lease(url: str, way: str) -> None:
    """H11: the holder gave up waiting for an early renewal, not the lease."""

    async def main() -> None:
        async with clients(url, 0.003) as (slow, _):
            lease = await slow.lock("seat", ttl=60).acquire()
            place = 0
            for place in range(100):
                step = CancelAt(lease.renew(), place, way)
                try:
                    await step.run()
                except asyncio.CancelledError:
                    assert step.hit
                lease.check()
                if not step.hit:
                    break
            assert place > 0
            assert await lease.release() is True

    asyncio.run(main())


def test_a_call_after_a_cancelled_one_gets_its_own_answer(url: str) -> None:
    """H12: the link is used again after a cancel; no answer of an earlier call comes through."""

    async def main() -> None:
        async with clients(url, 0.0) as (client, fresh):
            leases = [await fresh.lock(f"seat:{n}", meta={"n": n}).acquire() for n in range(8)]
            for place in range(6):
                for n in range(8):
                    step = CancelAt(client.inspect(f"seat:{(n + 1) % 8}"), place, "at once")
                    try:
                        await step.run()
                    except asyncio.CancelledError:
                        pass
                    (holding,) = await client.holders(f"seat:{n}")
                    assert (holding.name, holding.meta["n"]) == (f"seat:{n}", n)
            for lease in leases:
                await lease.release()

    asyncio.run(main())


def test_an_acquire_within_a_taskgroup_that_fails_leaves_no_orphan(
    url: str, faults: Faults
) -> None:
    """H09: a sibling's error cancels the others, one of which the engine has granted the lock."""

    async def main() -> None:
        async with await faulty.connect_aio(url, faults) as slow, aio.connect(url) as fresh:
            faults.hang("acquire", where="after")

            async def fail() -> None:
                async with asyncio.timeout(SOON):
                    while not await fresh.holders("seat"):  # noqa: ASYNC110  # there is no event
                        await asyncio.sleep(0)
                raise RuntimeError("the sibling failed")

            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    for _ in range(5):
                        group.create_task(slow.lock("seat", ttl=60).acquire())
                    group.create_task(fail())
            await assert_nothing_is_left(fresh, "after the group")

    asyncio.run(main())
