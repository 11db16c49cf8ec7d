"""Tasks of the simulated world that are cancelled, and processes that pause or crash."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from fencelock.sim.world import Cancelled, Simulation, SimWorld
from fencelock.world import GRACE_S, sleep


def test_a_cancelled_task_gets_it_at_its_next_step() -> None:
    async def wait_for_ever(world: SimWorld) -> str:
        try:
            await world.wait(world.signal(), None)
        except Cancelled:
            return "told"
        return "never"

    with Simulation(0) as simulation:
        world = simulation.world("one")
        task = simulation.start(wait_for_ever(world), world)
        simulation.run()
        assert not task.done
        task.cancel()
        simulation.run()
        assert task.result == "told"
        assert not task.was_cancelled


def test_a_task_that_is_cancelled_before_its_first_step_does_nothing() -> None:
    log: list[str] = []

    async def note() -> None:
        log.append("begun")

    with Simulation(0) as simulation:
        task = simulation.start(note(), simulation.world("one"))
        task.cancel()
        simulation.run()
        assert task.done
        assert task.was_cancelled
        assert log == []


@pytest.mark.parametrize(
    ("seconds", "seen"),
    [(1.5, ["finished", "left at 1.5"]), (10.0, [f"left at {1 + GRACE_S:g}", "finished"])],
)
@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_shield_holds_a_cancellation_back_for_a_second_at_most_and_its_work_goes_on(
    depth: int, cancels: int, seconds: float, seen: list[str]
) -> None:
    log: list[str] = []

    async def slow(world: SimWorld) -> None:
        await sleep(world, seconds)
        log.append("finished")

    def shielded(world: SimWorld, levels: int) -> Coroutine[Any, Any, None]:
        return world.shield(shielded(world, levels - 1)) if levels else slow(world)

    async def work(world: SimWorld) -> None:
        try:
            await shielded(world, depth)
            log.append("not cancelled")
        finally:
            log.append(f"left at {world.now():g}")

    with Simulation(0) as simulation:
        world = simulation.world("one")
        task = simulation.start(work(world), world)
        for n in range(cancels):
            simulation.at(1.0 + n / 4, task.cancel)
        simulation.run()
        assert task.was_cancelled
    assert log == seen


def test_an_error_of_shielded_work_is_its_callers_or_nobodys() -> None:
    log: list[str] = []

    async def fail(world: SimWorld) -> None:
        await sleep(world, 5.0)
        log.append("failing")
        raise ValueError("of no use")

    async def work(world: SimWorld) -> None:
        try:
            await world.shield(fail(world))
        except ValueError:
            log.append("told")

    with Simulation(0) as simulation:
        world = simulation.world("one")
        simulation.start(work(world), world)
        cancelled = simulation.start(work(world), world)
        simulation.at(1.0, cancelled.cancel)
        simulation.run()
    assert log == ["failing", "failing", "told"]


def test_a_paused_process_does_nothing_while_time_goes_on() -> None:
    log: list[float] = []

    async def beat(world: SimWorld) -> None:
        for _ in range(5):
            await sleep(world, 1.0)
            log.append(world.now())

    with Simulation(0) as simulation:
        world = simulation.world("one")
        simulation.start(beat(world), world)
        simulation.at(2.5, world.pause)
        simulation.at(7.25, world.resume)
        simulation.run()
    assert log == [1.0, 2.0, 7.25, 8.25, 9.25]


def test_a_crashed_process_cleans_nothing_up_and_never_comes_back() -> None:
    log: list[str] = []

    async def work(world: SimWorld) -> None:
        try:
            await sleep(world, 5)
            log.append("worked")
        finally:
            log.append("cleaned up")

    simulation = Simulation(0)
    world = simulation.world("one")
    task = simulation.start(work(world), world)
    simulation.at(1.0, world.crash)
    simulation.at(2.0, world.resume)
    simulation.at(3.0, task.cancel)
    simulation.run()
    assert simulation.now == 5.0
    assert (log, task.done) == ([], False)
    simulation.close()  # nobody looks any more
    assert log == ["cleaned up"]


def test_a_simulation_that_is_left_unwinds_even_tasks_that_wait_while_they_clean_up() -> None:
    log: list[str] = []

    async def stubborn(world: SimWorld) -> None:
        try:
            await world.wait(world.signal(), None)
        finally:
            log.append("cleaning")
            await world.shield(sleep(world, 1.0))
            log.append("never")

    with Simulation(0) as simulation:
        world = simulation.world("one")
        task = simulation.start(stubborn(world), world)
        simulation.run()
        unstarted = simulation.start(stubborn(world), world)
    assert log == ["cleaning"]
    assert not task.done
    assert not unstarted.done
