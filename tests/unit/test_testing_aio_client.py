"""`testing.aio_client()`: time moves by hand, and when a move is over everything has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fencelock import AcquireTimeout, Expired, LeaseLost, Revoked, UsageError, aio, testing
from fencelock.testing import AioClock

Test = Callable[[aio.Client, AioClock], Coroutine[Any, Any, None]]


def by_hand(test: Test) -> Callable[[], None]:
    """Run an async test with a client on a clock of its own."""

    async def run() -> None:
        client, clock = await testing.aio_client()
        async with client:
            await asyncio.wait_for(test(client, clock), 20)

    def call() -> None:
        asyncio.run(run())

    call.__name__ = test.__name__
    return call


async def until_waiting(client: aio.Client, clock: AioClock, name: str, count: int = 1) -> None:
    for _ in range(1000):
        if len((await client.inspect(name)).waiters) >= count:
            return
        await clock.settle()
    raise AssertionError(f"nobody waits for {name!r}")


@by_hand
async def test_a_body_is_cancelled_where_it_moved_the_clock(
    client: aio.Client, clock: AioClock
) -> None:
    told: list[LeaseLost] = []

    async def hear(loss: LeaseLost) -> None:
        await asyncio.sleep(0)
        told.append(loss)

    with pytest.raises(Expired):
        async with client.lock("a", ttl=30, on_lost=hear):
            await clock.run(1000)
            await clock.advance(31)
            raise AssertionError("not reached")
    assert [type(loss) for loss in told] == [Expired]  # though the body was cancelled meanwhile
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@by_hand
async def test_a_body_elsewhere_is_cancelled(client: aio.Client, clock: AioClock) -> None:
    entered, events = asyncio.Event(), []

    async def work() -> None:
        async with client.lock("a", ttl=30):
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                events.append("cancelled")

    task = asyncio.create_task(work())
    await entered.wait()
    await clock.advance(29)
    assert events == []
    await clock.advance(31)
    assert events == ["cancelled"]
    with pytest.raises(Expired):
        await task


@by_hand
async def test_a_lease_is_lost_when_the_jump_is_over(client: aio.Client, clock: AioClock) -> None:
    told: list[LeaseLost] = []
    lease = await client.lock("a", ttl=30, on_lost=told.append).acquire()
    await clock.advance(31)
    assert lease.lost.is_set()
    assert len(told) == 1
    assert lease.fence == 1


@by_hand
async def test_time_is_what_the_clock_says(client: aio.Client, clock: AioClock) -> None:
    began = clock.now()
    lease = await client.lock("a", ttl=30, renew=False).acquire()
    await clock.run(29)
    assert clock.now() == began + 29
    assert 0 < lease.remaining() < 1
    await clock.run(1)
    assert lease.lost.is_set()


@by_hand
async def test_waiters_are_served_in_one_run(client: aio.Client, clock: AioClock) -> None:
    turns: list[int] = []

    async def take_turn(number: int) -> None:
        async with client.lock("a", ttl=5, timeout=1000):
            turns.append(number)

    lease = await client.lock("a", ttl=5, renew=False).acquire()
    tasks = []
    for number in range(5):
        tasks.append(asyncio.create_task(take_turn(number)))
        await until_waiting(client, clock, "a", number + 1)
    await clock.run(6)
    assert turns == [0, 1, 2, 3, 4]
    await asyncio.gather(*tasks)
    assert not lease


@by_hand
async def test_a_waiter_has_given_up_when_its_time_is_over(
    client: aio.Client, clock: AioClock
) -> None:
    async with client.lock("a", ttl=30):
        waiter = asyncio.create_task(client.lock("a", timeout=60).acquire())
        await until_waiting(client, clock, "a")
        await clock.run(59)
        assert not waiter.done()
        await clock.run(1)
        with pytest.raises(AcquireTimeout):
            await waiter


@by_hand
async def test_a_cancelled_waiter_is_gone(client: aio.Client, clock: AioClock) -> None:
    async with client.lock("a", ttl=30):
        waiter = asyncio.create_task(client.lock("a").acquire())
        await until_waiting(client, clock, "a")
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert (await client.inspect("a")).waiters == ()
        await clock.run(100)


@by_hand
async def test_who_waits_for_a_loss_is_told(client: aio.Client, clock: AioClock) -> None:
    lease = await client.lock("a", ttl=30, renew=False).acquire()
    patient = asyncio.create_task(lease.lost.wait(timeout=100))
    hasty = asyncio.create_task(lease.lost.wait(timeout=10))
    await clock.settle()
    await clock.run(10)
    assert hasty.done()
    assert await hasty is False
    assert not patient.done()
    await clock.run(21)
    assert await patient is True


@by_hand
async def test_a_rival_shares_the_locks_and_the_clock(client: aio.Client, clock: AioClock) -> None:
    async with clock.connect() as rival:
        lease = await client.lock("a", ttl=30, renew=False).acquire()
        assert await rival.lock("a").try_acquire() is None
        await clock.advance(30)
        async with rival.lock("a") as other:
            assert other.fence == 2
        assert not lease


@by_hand
async def test_a_lease_is_lost_at_a_word(client: aio.Client, clock: AioClock) -> None:
    told: list[LeaseLost] = []
    lease = await client.lock("a", on_lost=told.append).acquire()
    await testing.lose(lease, "maintenance")
    assert lease.reason == "maintenance"
    assert [type(loss) for loss in told] == [Revoked]
    with pytest.raises(UsageError, match="over already"):
        await testing.lose(lease)
    async with client.lock("a", timeout=0):
        assert await lease.release() is False


@by_hand
async def test_a_lease_is_lost_inside_its_block(client: aio.Client, clock: AioClock) -> None:
    with pytest.raises(Revoked, match="maintenance"):
        async with client.lock("a") as lease:
            await testing.lose(lease, "maintenance")
            raise AssertionError("not reached")


def test_a_lease_of_any_client_can_be_lost() -> None:
    async def run() -> None:
        async with aio.connect("memory://aio-lose") as client:
            lease = await client.lock("a").acquire()
            await testing.lose(lease)
            assert lease.lost.is_set()

    asyncio.run(run())


def test_a_callback_that_never_ends_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        client, clock = await testing.aio_client()
        stuck = asyncio.Event()

        async def hang(loss: LeaseLost) -> None:
            await stuck.wait()

        async with client:
            lease = await client.lock("a", ttl=30, on_lost=hang).acquire()
            with (
                monkeypatch.context() as patch,
                pytest.raises(RuntimeError, match="still at work: fencelock-on-lost"),
            ):
                patch.setattr(clock._timeline, "real_timeout", 0.1)
                await clock.advance(31)
            stuck.set()
            await clock.settle()
            assert not lease

    asyncio.run(run())


def test_a_call_that_waits_for_a_clock_that_stands_still_says_so() -> None:
    async def run() -> None:
        client, clock = await testing.aio_client(real_timeout=0.1)
        async with client, client.lock("a"):
            with pytest.raises(RuntimeError, match="its clock moves by hand only"):
                await client.lock("a", timeout=5).acquire()
            with pytest.raises(RuntimeError, match="not so"):
                await clock.until(lambda: False)
            await clock.until(lambda: True)

    asyncio.run(run())


def test_time_moves_forward_only() -> None:
    async def run() -> None:
        client, clock = await testing.aio_client()
        async with client:
            for by in (-1, float("nan"), float("inf")):
                for move in (clock.advance, clock.run):
                    with pytest.raises(UsageError, match="time moves forward"):
                        await move(by)

    asyncio.run(run())
