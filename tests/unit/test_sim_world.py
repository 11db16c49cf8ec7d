"""The simulated world and its scheduler, with no protocol in them."""

from __future__ import annotations

import asyncio

import pytest

from fencelock.sim.world import Endless, Simulation, SimWorld, Task
from fencelock.world import World, sleep


async def tick(world: SimWorld, log: list[str], name: str, times: int) -> None:
    for n in range(times):
        log.append(f"{name}{n}")
        await world.simulation.turn()


def interleaving(seed: int) -> list[str]:
    log: list[str] = []
    with Simulation(seed) as simulation:
        for name in "abc":
            world = simulation.world(name)
            simulation.start(tick(world, log, name, 4), world)
        simulation.run()
    return log


def test_one_seed_gives_one_interleaving_and_seeds_differ() -> None:
    assert interleaving(1) == interleaving(1)
    assert len({tuple(interleaving(seed)) for seed in range(50)}) > 40


def test_every_order_of_two_tasks_is_found() -> None:
    async def note(log: list[str], name: str) -> None:
        log.append(name)

    orders = set()
    for seed in range(20):
        log: list[str] = []
        with Simulation(seed) as simulation:
            world = simulation.world("one")
            for name in "ab":
                simulation.start(note(log, name), world)
            simulation.run()
        orders.add("".join(log))
    assert orders == {"ab", "ba"}


def test_time_stands_still_while_somebody_is_ready_and_then_jumps() -> None:
    async def watch(world: SimWorld) -> list[float]:
        seen = [world.now()]
        for _ in range(10):
            await world.simulation.turn()
        seen.append(world.now())
        await sleep(world, 3600)
        return [*seen, world.now()]

    with Simulation(0) as simulation:
        world = simulation.world("one")
        assert simulation.play(watch(world), world) == [0, 0, 3600]


def test_a_flag_that_was_heard_leaves_no_timer_that_moves_time() -> None:
    async def wait_long(world: SimWorld) -> bool:
        signal = world.signal()
        world.simulation.at(1.0, signal.set)
        return await world.wait(signal, 1000.0)

    with Simulation(0) as simulation:
        world = simulation.world("one")
        assert simulation.play(wait_long(world), world)
        simulation.run()
        assert simulation.now == 1.0


def test_a_wait_that_is_overdue_still_gives_way() -> None:
    async def spin(world: SimWorld, until: list[str]) -> int:
        turns = 0
        while not until:
            assert not await world.wait(world.signal(), world.now() - 1)
            turns += 1
        return turns

    with Simulation(3) as simulation:
        world, log = simulation.world("one"), list[str]()
        task = simulation.start(spin(world, log), world)
        simulation.start(tick(world, log, "x", 1), world)
        simulation.run()
        assert task.done


def test_clocks_of_processes_are_set_differently_and_run_apart() -> None:
    with Simulation(0) as simulation:
        true, ahead = simulation.world("true"), simulation.world("ahead", ahead=100.0)
        fast = simulation.world("fast", pace=1.01)
        simulation.run(until=10.0)
        assert [world.now() for world in (true, ahead, fast)] == [10.0, 110.0, 10.1]
        assert ahead.true_time(110.0) == 10.0
        assert true.wall_us() == fast.wall_us()
        fast.wall_ahead = -3600.0
        assert fast.wall_us() == true.wall_us() - 3600 * 10**6
        assert fast.now() == 10.1


def test_a_timer_never_comes_early_on_any_clock() -> None:
    async def nap(world: SimWorld) -> None:
        for _ in range(100):
            deadline = world.now() + world.random()
            await world.wait(world.signal(), deadline)
            assert world.now() >= deadline

    with Simulation(5) as simulation:
        for n in range(20):
            world = simulation.world(str(n), ahead=simulation.random() * 1e6, pace=0.99 + n / 1000)
            simulation.start(nap(world), world)
        simulation.run()


def test_a_task_that_never_rests_is_found_and_named() -> None:
    async def spin(simulation: Simulation) -> None:
        while True:
            await simulation.turn()

    with Simulation(9, steps_max=100) as simulation:
        simulation.start(spin(simulation), simulation.world("one"), "spinner")
        with pytest.raises(Endless, match=r"one/spinner#1 is still busy: seed 9, step 101"):
            simulation.run()


def test_time_has_an_end() -> None:
    async def nap(world: SimWorld) -> None:
        while True:
            await sleep(world, 10.0)

    with Simulation(9, time_max=60.0) as simulation:
        world = simulation.world("one")
        simulation.start(nap(world), world)
        with pytest.raises(Endless, match=r"time is up: seed 9, .* 70\.0"):
            simulation.run()


def test_waiting_for_what_cannot_come_is_an_error() -> None:
    async def wait(world: SimWorld) -> None:
        await world.wait(world.signal(), None)

    with Simulation(9) as simulation:
        world = simulation.world("one")
        with pytest.raises(Endless, match="nothing is left to run"):
            simulation.play(wait(world), world)


def test_an_error_in_a_task_ends_the_run_and_says_where_it_was() -> None:
    async def fail(world: SimWorld) -> None:
        await sleep(world, 1.5)
        raise ValueError("oh")

    with Simulation(77) as simulation:
        world = simulation.world("one")
        simulation.start(fail(world), world, "failing")
        with pytest.raises(ValueError, match="oh") as caught:
            simulation.run()
        assert caught.value.__notes__ == ["in one/failing#1: seed 77, step 3, 1.500000 s"]
        simulation.run()  # the others can go on


def test_what_belongs_to_another_world_is_refused() -> None:
    async def foreign() -> None:
        await asyncio.sleep(0)

    with Simulation(0) as simulation:
        simulation.start(foreign(), simulation.world("one"), "lost")
        with pytest.raises(
            RuntimeError, match=r"one/lost#1 suspended on None, which is not a verb"
        ):
            simulation.run()


def test_calls_of_two_adopted_clients_come_between_each_other() -> None:
    async def call(world: SimWorld, log: list[str]) -> None:
        client = world.adopt("driver")
        for step in ("read", "write"):
            await client(log.append, f"{world.name} {step}")
        await client.close()

    races = 0
    for seed in range(30):
        log: list[str] = []
        with Simulation(seed) as simulation:
            for name in "ab":
                world = simulation.world(name)
                simulation.start(call(world, log), world)
            simulation.run()
        assert sorted(log) == ["a read", "a write", "b read", "b write"]
        races += log[0][0] != log[1][0]
    assert 5 < races < 25


def test_identity_and_chance_come_from_the_seed() -> None:
    async def identity(world: SimWorld) -> tuple[object, ...]:
        owners = {world.owner() for _ in range(100)}
        assert len(owners) == 100
        assert all(len(owner) == 32 for owner in owners)
        numbers = [world.random() for _ in range(100)]
        assert all(0 <= number < 1 for number in numbers)
        assert isinstance(world.who(), Task)
        return (sorted(owners), numbers, world.facts(), world.generation())

    def drawn(seed: int) -> tuple[object, ...]:
        with Simulation(seed) as simulation:
            world = simulation.world("one")
            return simulation.play(identity(world), world)

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(1)[2] == {"host": "one", "pid": 1, "task": "one/main#1"}


def test_it_is_a_world() -> None:
    with Simulation(0) as simulation:
        world: World = simulation.world("one")  # the type checker is the test
        world.admit()
        with world.mutex():
            assert not world.signal().is_set()
