"""Once per window, in simulated time: among many clients whose clocks differ, one does the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine

import pytest

from fencelock._client.client import Core
from fencelock._client.hold_state import HoldState
from fencelock._client.lock_options import make_lock_spec
from fencelock.engine import Address, Engine
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.errors import LeaseLost
from fencelock.recipes.once import Schedule, Turn
from fencelock.sim.world import Simulation, SimWorld
from fencelock.testing.faulty import Faults, FaultyEngine
from fencelock.world import sleep

EVERY_S, TTL_S, WINDOWS, CLIENTS = 5.0, 2.0, 100, 20
ADDRESS = Address("memory", hosts=(("windows", None),))


class Hold:
    """A lease, in so far as core needs one."""

    def __init__(self, core: Core[Hold], hold: HoldState) -> None:
        self._hold = hold


class Machine:
    """One machine with a schedule, whose wall clock is wrong."""

    def __init__(self, fleet: Fleet, number: int, ahead: float) -> None:
        self.fleet = fleet
        self.world: SimWorld = fleet.simulation.world(f"machine-{number}")
        self.world.wall_ahead = ahead
        self.core: Core[Hold] = Core(self.world, self._engine, Hold)
        spec = make_lock_spec("job", TTL_S, fleet.timeout, True, None, None, False, None, None)
        self.schedule = Schedule(self.core, spec, EVERY_S)

    def _engine(self) -> Engine:
        return FaultyEngine(MemoryEngine(self.world, ADDRESS, self.fleet.store), self.fleet.faults)

    def wall(self) -> float:
        return self.world.wall_us() / 1e6

    async def live(self, first: int) -> None:
        """Strike at the beginning of every window of its own clock, as cron does."""
        for window in range(first, first + WINDOWS):
            while self.wall() < window * EVERY_S:
                await sleep(self.world, window * EVERY_S - self.wall() + 0.001)
            await self.strike()

    async def strike(self) -> None:
        turn: Turn[Hold] = await self.schedule.begin()
        if turn.lease is None:
            return
        error: Exception | None = None
        try:
            self.fleet.began[turn.window.number] += 1
            await self.fleet.work(self)
            await self.schedule.end(turn, None)
            self.fleet.done[turn.window.number] += 1
        except ZeroDivisionError as failure:
            error = failure
        try:
            await self.core.lifecycle.leave(turn.lease._hold, error)
        except LeaseLost:
            self.fleet.done[turn.window.number] -= 1


class Fleet:
    """Many machines that do one job."""

    def __init__(self, seed: int, apart: float = 2.0, timeout: float | None = None) -> None:
        self.simulation = Simulation(seed, steps_max=3_000_000)
        self.timeout = timeout
        self.faults = Faults()
        self.faults.delay(before=0.02, after=0.03)
        self.store = Store(self.simulation.world("engine"))
        self.began: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.work: Callable[[Machine], Coroutine[None, None, None]] = self.usual
        spread = (number / (CLIENTS - 1) * 2 - 1 for number in range(CLIENTS))
        self.machines = [Machine(self, n, part * apart) for n, part in enumerate(spread)]

    async def usual(self, machine: Machine) -> None:
        await sleep(machine.world, machine.world.random() * 1.5)

    def run(self) -> list[int]:
        """Live through all windows; return their numbers."""
        first = int(self.machines[-1].wall() // EVERY_S) + 2
        with self.simulation:
            lives = [self.simulation.start(m.live(first), m.world) for m in self.machines]
            self.simulation.run(
                until=lambda: all(
                    life.done or machine.world.is_crashed
                    for life, machine in zip(lives, self.machines, strict=True)
                )
            )
        return list(range(first, first + WINDOWS))


@pytest.mark.parametrize("timeout", [None, 0.0])
def test_each_window_is_worked_once_by_clocks_that_differ(timeout: float | None) -> None:
    fleet = Fleet(1, timeout=timeout)
    windows = fleet.run()
    assert [fleet.done[window] for window in windows] == [1] * WINDOWS
    assert fleet.began == fleet.done


def test_a_worker_that_crashed_is_replaced_within_its_window() -> None:
    fleet = Fleet(2)

    async def crash_sometimes(machine: Machine) -> None:
        await fleet.usual(machine)
        alive = [one for one in fleet.machines if not one.world.is_crashed]
        if fleet.began.total() % 7 == 0 and len(alive) > 5:
            machine.world.crash()
        await sleep(machine.world, 0.001)

    fleet.work = crash_sometimes
    windows = fleet.run()
    assert [fleet.done[window] for window in windows] == [1] * WINDOWS
    assert fleet.began.total() == WINDOWS + sum(one.world.is_crashed for one in fleet.machines)


def test_a_worker_that_froze_past_its_lease_is_replaced_and_told() -> None:
    fleet = Fleet(3)
    froze: list[Machine] = []

    async def freeze_sometimes(machine: Machine) -> None:
        if fleet.began.total() % 10 == 0:
            froze.append(machine)
            machine.world.pause()
            fleet.simulation.at(fleet.simulation.now + TTL_S + 1.0, machine.world.resume)
        await fleet.usual(machine)

    fleet.work = freeze_sometimes
    windows = fleet.run()
    assert [fleet.done[window] for window in windows] == [1] * WINDOWS
    assert fleet.began.total() == WINDOWS + len(froze)


def test_work_that_raised_is_done_by_another_and_lost_answers_change_nothing() -> None:
    fleet = Fleet(4)
    failed: list[Machine] = []

    async def fail_sometimes(machine: Machine) -> None:
        await sleep(machine.world, machine.world.random() * 0.2)
        fleet.faults.lose_replies(2, "remember")
        if fleet.began.total() % 5 == 0:
            failed.append(machine)
            raise ZeroDivisionError

    fleet.work = fail_sometimes
    windows = fleet.run()
    assert [fleet.done[window] for window in windows] == [1] * WINDOWS
    assert fleet.began.total() == WINDOWS + len(failed)


def test_no_window_is_worked_twice_by_clocks_that_are_further_apart() -> None:
    fleet = Fleet(5, apart=EVERY_S)  # two windows between the first and the last
    fleet.run()
    assert {*fleet.done.values()} == {1}
    assert fleet.began == fleet.done


def test_a_machine_that_froze_before_it_looked_gives_its_window_up() -> None:
    """What was remembered of it may be forgotten by then."""
    fleet = Fleet(6)
    machine = fleet.machines[0]

    async def look_late() -> tuple[bool, bool]:
        window = machine.schedule.window()
        soon = await machine.schedule.is_due(window, machine.world.now() + 1)
        await sleep(machine.world, 2 * EVERY_S)
        return soon, await machine.schedule.is_due(window, machine.world.now() + 1)

    with fleet.simulation:
        assert fleet.simulation.play(look_late(), machine.world) == (True, False)
