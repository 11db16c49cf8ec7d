"""An acquire or a release that is given up while it is under way leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

import fencelock
from fencelock import AcquireTimeout, aio
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults
from tests.faults.crew import Crew
from tests.faults.flavors import SOON
from tests.faults.stepping import WAYS, CancelAt

DELAYS = {"no delay": 0.0, "a slow engine": 0.003}


@asynccontextmanager
async def clients(url: str, delay: float) -> AsyncIterator[tuple[aio.Client, aio.Client]]:
    """One whose engine is slow, and one that sees what the first has left behind."""
    faults = Faults()
    async with await faulty.connect_aio(url, faults) as slow, aio.connect(url) as fresh:
        if delay:
            faults.delay(*faulty.VERBS, before=delay, after=delay)
        yield slow, fresh
        faults.heal()


async def assert_nothing_is_left(fresh: aio.Client, where: str) -> None:
    """A fresh client gets the lock at once, and nobody stands in the queue."""
    state = await fresh.inspect("seat")
    assert (state.holders, state.waiters) == ((), ()), where
    lease = await fresh.lock("seat").try_acquire()
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
def test_an_acquire_cancelled_at_any_await_leaves_no_orphan(url: str, delay: str, way: str) -> None:
    """H09: the lock is free, so the engine may have granted it in the very moment of the cancel."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh):

            class Free(Sweep):
                async def after(self, where: str) -> None:
                    await assert_nothing_is_left(fresh, where)

            awaits = await Free(slow.lock("seat", ttl=60), way).run()
            assert awaits > 0 or (url.startswith("memory") and not DELAYS[delay])

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
def test_a_waiter_cancelled_at_any_await_leaves_the_queue(url: str, delay: str, way: str) -> None:
    """H09: cancelled while queued, up to the end of its own timeout. The holder is not touched."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh):
            holder = await fresh.lock("seat").acquire()

            class Queued(Sweep):
                async def after(self, where: str) -> None:
                    state = await fresh.inspect("seat")
                    assert state.waiters == (), where
                    assert [held.fence for held in state.holders] == [holder.fence], where

            assert await Queued(slow.lock("seat", ttl=60, timeout=0.02), way).run() > 0
            assert await holder.release()
            await assert_nothing_is_left(fresh, "at the end")

    asyncio.run(main())


@pytest.mark.needs("waiters")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("delay", DELAYS)
def test_a_waiter_cancelled_while_the_lock_is_handed_to_it_leaves_no_orphan(
    url: str, delay: str, way: str
) -> None:
    """H09: the holder releases as soon as the waiter is queued: the lock may be the waiter's."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh):

            class HandedOver(Sweep):
                async def before(self) -> None:
                    self.holder = await fresh.lock("seat", ttl=60).acquire()
                    self.releasing = asyncio.create_task(release_when_queued(fresh, self.holder))

                async def after(self, where: str) -> None:
                    self.releasing.cancel()
                    await asyncio.wait({self.releasing})
                    await self.holder.release()
                    await assert_nothing_is_left(fresh, where)

            assert await HandedOver(slow.lock("seat", ttl=60), way).run() > 0

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
            for step in range(1, 33):
                seconds = step * delay / 8
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
    url: str, delay: str, way: str, ending: str
) -> None:
    """H11: cancelled in ``release()`` or on the way out of ``async with``: the lock is free."""

    async def main() -> None:
        async with clients(url, DELAYS[delay]) as (slow, fresh):

            async def release(lease: aio.Lease) -> None:
                if ending == "release":
                    await lease.release()
                else:
                    async with lease:
                        pass

            place = 0
            for place in range(100):
                lease = await slow.lock("seat", ttl=60).acquire()
                step = CancelAt(release(lease), place, way)
                try:
                    await step.run()
                except asyncio.CancelledError:
                    assert step.hit
                assert not lease
                await assert_nothing_is_left(fresh, f"cancelled {way} at await no. {place}")
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


@contextmanager
def interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C without the keyboard: a way for another thread to interrupt the main one."""

    landed = threading.Event()
    main = threading.main_thread().ident or 0

    def interrupt(*_: object) -> None:
        landed.set()
        raise KeyboardInterrupt

    def hit() -> None:
        """A signal in the very moment in which Python begins to wait does not wake it: again."""
        signal.pthread_kill(main, signal.SIGUSR1)
        while not landed.wait(1.0):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield hit
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.needs("waiters")
def test_an_interrupted_waiter_leaves_the_queue(url: str) -> None:
    """H09, blocking: KeyboardInterrupt in an acquire that waits."""
    with fencelock.connect(url) as client, fencelock.connect(url) as fresh, interrupts() as hit:
        holder = fresh.lock("seat").acquire()

        def interrupt_when_queued() -> None:
            queued = threading.Event()
            for _ in range(5000):
                if fresh.inspect("seat").waiters:
                    hit()
                    return
                queued.wait(0.002)

        thread = threading.Thread(target=interrupt_when_queued)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.lock("seat").acquire(timeout=SOON)
        thread.join(SOON)
        assert fresh.inspect("seat").waiters == ()
        assert holder.release() is True
        lease = fresh.lock("seat").try_acquire()
        assert lease is not None
        lease.release()


def test_an_interrupted_acquire_of_a_slow_engine_leaves_no_orphan(url: str) -> None:
    """H09, blocking: KeyboardInterrupt while the engine's answer is under way: it was granted."""
    faults = Faults()
    with faulty.connect(url, faults) as client, fencelock.connect(url) as fresh:
        with interrupts() as hit:
            faults.hang("acquire", where="after")

            def interrupt_when_granted() -> None:
                pause = threading.Event()
                for _ in range(5000):
                    if fresh.holders("seat"):
                        hit()
                        return
                    pause.wait(0.002)

            thread = threading.Thread(target=interrupt_when_granted)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                client.lock("seat", ttl=60).acquire()
            thread.join(SOON)
        assert fresh.inspect("seat").holders == ()


@pytest.mark.needs("waiters")
@pytest.mark.parametrize("flavor", ["sync", "asyncio"])
def test_a_process_interrupted_while_it_waits_leaves_the_queue(
    flavor: str, shared_url: str, crew: Crew
) -> None:
    """H09: SIGINT from outside, as Ctrl-C sends it, to a process that waits for a lock."""
    holder = crew.actor("sync", shared_url)
    holder.acquire("seat", ttl=60)
    waiter = crew.worker("waiter", flavor, shared_url, "seat")
    waiter.hear(event="waiting")
    holder.wait_queued("seat", 1)
    waiter.signal(signal.SIGINT)
    waiter.hear(event="interrupted")
    assert waiter.wait() == 0, waiter.errors()
    assert holder.ask("inspect", name="seat") == {"holders": 1, "waiters": 0}
    assert holder.ask("release", name="seat") is True
    holder.acquire("seat")


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
