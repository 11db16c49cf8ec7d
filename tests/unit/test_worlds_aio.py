"""The world of asyncio: cancellation, other threads, and a loop that is never blocked."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest

from fencelock.errors import UsageError
from fencelock.worlds.aio import AioWorld
from tests.unit.loops import NEVER, in_loop, turns


@in_loop
async def test_an_overdue_wait_does_not_starve_the_loop(world: AioWorld) -> None:
    turn: list[int] = []

    async def other() -> None:
        while len(turn) < 10:
            await asyncio.sleep(0)
            turn.append(1)

    task = asyncio.create_task(other())
    waits = 0
    while not task.done():
        assert not await world.wait(world.signal(), world.now() - 1)
        waits += 1
    assert waits < 100


@in_loop
async def test_a_flag_set_by_another_thread_wakes_a_waiter(world: AioWorld) -> None:
    for delay in (0.0, 0.0005, 0.005):
        signal = world.signal()
        timer = threading.Timer(delay, signal.set)
        timer.start()
        assert await world.wait(signal, world.now() + NEVER)
        timer.join()


@in_loop
async def test_a_flag_wakes_all_who_wait_for_it(world: AioWorld) -> None:
    signal = world.signal()
    waiters = [asyncio.create_task(world.wait(signal, None)) for _ in range(5)]
    await turns(3)
    threading.Thread(target=signal.set).start()
    assert await asyncio.gather(*waiters) == [True] * 5


@in_loop
async def test_a_cancelled_wait_leaves_nothing_behind(world: AioWorld) -> None:
    signal = world.signal()
    task = asyncio.create_task(world.wait(signal, world.now() + NEVER))
    await turns(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not signal._waiters  # type: ignore[attr-defined]
    signal.set()


def test_a_flag_can_be_set_when_the_loop_is_gone() -> None:
    async def make() -> Any:
        return AioWorld().signal()

    signal = asyncio.run(make())
    threading.Thread(target=signal.set).start()
    signal.set()
    assert signal.is_set()


def test_a_job_that_comes_when_the_loop_is_gone_is_refused_and_not_left_unawaited() -> None:
    async def make() -> AioWorld:
        return AioWorld()

    async def job() -> None:
        pass

    world, work = asyncio.run(make()), job()
    with pytest.raises(RuntimeError, match="closed"):
        world.spawn(work, "late")
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


@in_loop
async def test_adopted_calls_run_in_order_on_one_thread_and_leave_the_loop_free(
    world: AioWorld,
) -> None:
    client, gate = world.adopt("fencelock-test"), threading.Event()
    log: list[tuple[int, str]] = []

    def call(number: int) -> None:
        if number == 0:
            assert gate.wait(NEVER)
        log.append((number, threading.current_thread().name))

    calls = [asyncio.create_task(client(call, number)) for number in range(5)]
    await turns(10)  # were the loop blocked, nobody would open the gate
    assert log == []
    gate.set()
    await asyncio.gather(*calls)
    assert [number for number, _ in log] == [0, 1, 2, 3, 4]
    assert len({name for _, name in log}) == 1
    assert log[0][1].startswith("fencelock-test")
    await client.close()


@in_loop
async def test_an_adopted_call_that_was_cancelled_is_over_before_the_next_begins(
    world: AioWorld,
) -> None:
    client, began, gate = world.adopt("fencelock-test"), world.signal(), threading.Event()
    log: list[str] = []

    def slow() -> None:
        began.set()
        assert gate.wait(NEVER)
        log.append("first")

    task = asyncio.create_task(client(slow))
    assert await world.wait(began, world.now() + NEVER)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    following = asyncio.create_task(client(log.append, "second"))
    await turns(5)
    assert log == []
    gate.set()
    await following
    assert log == ["first", "second"]
    await client.close()


@in_loop
async def test_a_cancelled_gather_cancels_its_calls(world: AioWorld) -> None:
    log: list[str] = []

    async def call() -> None:
        try:
            await asyncio.sleep(NEVER)
        finally:
            log.append("ended")

    task = asyncio.create_task(world.gather([call, call], world.now() + NEVER))
    await turns(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await turns(3)
    assert log == ["ended", "ended"]


@in_loop
async def test_tasks_differ_and_facts_name_them(world: AioWorld) -> None:
    async def look() -> tuple[object, object]:
        return world.who(), world.facts()["task"]

    seen = [await asyncio.create_task(look(), name=f"task-{n}") for n in range(20)]
    assert len({who for who, _ in seen}) == 20
    assert [name for _, name in seen] == [f"task-{n}" for n in range(20)]


def test_a_world_belongs_to_one_loop() -> None:
    async def make() -> AioWorld:
        return AioWorld()

    async def use(world: AioWorld) -> None:
        world.admit()

    async def protect(world: AioWorld) -> None:
        await world.shield(turns(1))

    world = asyncio.run(make())
    with pytest.raises(UsageError, match="another event loop"):
        asyncio.run(use(world))
    with pytest.raises(UsageError, match="another event loop"):
        asyncio.run(protect(world))  # and the work is closed: nothing warns that it never ran


def test_a_flag_that_is_set_after_its_loop_was_closed_wakes_nobody() -> None:
    """As the destructor of a client does, whose loop was closed while something waited in it."""
    loop = asyncio.new_event_loop()

    async def begin() -> tuple[Any, asyncio.Task[bool]]:
        world = AioWorld()
        signal = world.signal()
        task = asyncio.create_task(world.wait(signal, None))
        await asyncio.sleep(0)
        return signal, task

    signal, task = loop.run_until_complete(begin())
    loop.close()
    signal.set()
    assert signal.is_set()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    task.get_coro().close()
