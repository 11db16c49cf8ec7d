"""Work that is shielded ends by itself, and the caller's cancellation comes then."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from fencelock.errors import OutcomeUnknown
from fencelock.worlds import aio_shield
from fencelock.worlds.aio import AioWorld
from tests.unit.loops import NEVER, in_loop, resolved, turns


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("cancels", [1, 2, 3])
def test_a_shield_runs_to_its_end_though_cancelled_and_delivers_it_then(
    cancels: int, plain: bool
) -> None:
    log: list[str] = []

    async def main() -> None:
        world, gate = AioWorld(), asyncio.Event()

        async def slow() -> None:
            await resolved(gate)
            await turns(3)
            log.append("finished")

        async def caller() -> None:
            try:
                await world.shield(slow(), plain)
                log.append("not cancelled")
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        task = asyncio.create_task(caller())
        for _ in range(cancels):
            await turns(3)
            task.cancel("stop")
        await turns(3)
        assert log == []
        gate.set()
        with pytest.raises(asyncio.CancelledError, match="stop"):
            await task

    asyncio.run(main())
    assert log == ["finished", "cancelled"]


@in_loop
async def test_a_cancellation_is_delivered_even_if_the_shielded_work_fails(world: AioWorld) -> None:
    gate = asyncio.Event()

    async def fail() -> None:
        await resolved(gate)
        raise KeyError("oh")

    for plain in (False, True):
        gate.clear()
        task = asyncio.create_task(world.shield(fail(), plain))
        await turns(3)
        task.cancel()
        await turns(3)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task


@in_loop
async def test_what_a_future_ends_with_reaches_the_shielded_work(world: AioWorld) -> None:
    async def work(future: asyncio.Future[None]) -> str:
        try:
            await future
        except KeyError:
            return "handled"
        return "not told"

    for plain in (False, True):
        future: asyncio.Future[None] = world.loop.create_future()
        world.loop.call_soon(future.set_exception, KeyError("oh"))
        assert await world.shield(work(future), plain) == "handled"


@in_loop
async def test_a_timeout_around_a_shield_still_is_a_timeout(world: AioWorld) -> None:
    log: list[str] = []

    async def slow() -> None:
        gate = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, gate.set)
        await resolved(gate)
        log.append("finished")

    for plain in (False, True):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await world.shield(slow(), plain)
    assert log == ["finished", "finished"]


@in_loop
async def test_a_caller_whose_own_time_is_over_has_no_second_grace(world: AioWorld) -> None:
    """It had one: its limit is its deadline and the grace. The work goes on."""
    for plain in (False, True):
        gate, log = asyncio.Event(), list[str]()

        async def slow(gate: asyncio.Event = gate, log: list[str] = log) -> None:
            await resolved(gate)
            log.append("finished")

        with patch.object(aio_shield, "GRACE_S", NEVER), pytest.raises(OutcomeUnknown):
            with world.until(world.now() + 0.01):
                await world.shield(slow(), plain)
        gate.set()
        while not log:
            await turns(1)
