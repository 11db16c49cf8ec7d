"""Corners of acquiring and holding that chance rarely visits, each played on purpose."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from fencelock._client import administration
from fencelock._client.client import Core
from fencelock._client.lock_options import LockSpec, make_lock_spec
from fencelock._client.pending import ECHO_S
from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.engines.units import CLAIM_S
from fencelock.errors import Revoked, Unavailable
from fencelock.model import Busy, Request
from fencelock.sim.network import Conditions, Host, Network, Pipe
from fencelock.sim.world import Cancelled, Simulation, SimWorld
from fencelock.testing.faulty import Faults, FaultyEngine
from fencelock.world import GRACE_S, Job, sleep
from tests.sim.memory_run import Hold

NAME = "seat"


class Desk:
    """Two clients of one process over one plain memory engine."""

    def __init__(self) -> None:
        self.simulation = Simulation(4, steps_max=10_000)
        self.world = self.simulation.world("one")
        self.store = Store(self.world)
        self.engine = MemoryEngine(self.world, Address("memory"), self.store)
        self.one, self.other = self.client(), self.client()

    def client(self, faults: Faults | None = None) -> Core[Hold]:
        engine = self.engine if faults is None else FaultyEngine(self.engine, faults)
        return Core(self.world, lambda: engine, lambda core, tenure: Hold(tenure))

    def spec(self, ttl: float = 1.0) -> LockSpec:
        return make_lock_spec(NAME, ttl, None, True, None, None, False, None, None)

    def is_untouched(self) -> bool:
        return not (self.store.names or self.store.signals)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    with desk.simulation:
        yield desk


def test_a_lease_that_nobody_can_look_after_is_given_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(world: SimWorld, work: Coroutine[Any, Any, None], label: str) -> Job:
        work.close()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(SimWorld, "spawn", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        desk.simulation.play(desk.one.attempt(desk.spec(), 0.0), desk.world)
    assert desk.is_untouched()
    assert len(desk.one.keeper) == 0


def test_a_grant_that_is_over_when_the_watch_has_ended_is_given_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwatch = MemoryEngine.unwatch

    async def slowly(engine: MemoryEngine, request: Request) -> None:
        await sleep(engine.world, 1.5)
        await unwatch(engine, request)

    async def contend() -> None:
        first = await desk.one.attempt(desk.spec(), 0.0)
        assert isinstance(first, Hold)
        desk.simulation.start(desk.one.lifecycle.release(first.tenure), desk.world)
        with pytest.raises(Unavailable, match="took longer than the ttl"):
            await desk.other.attempt(desk.spec(), None)

    monkeypatch.setattr(MemoryEngine, "unwatch", slowly)
    desk.simulation.play(contend(), desk.world)
    assert desk.is_untouched()


def test_a_waiter_that_is_cancelled_when_the_lock_was_just_handed_to_it_passes_it_on(
    desk: Desk,
) -> None:
    async def contend() -> float:
        first = await desk.one.attempt(desk.spec(ttl=30.0), 0.0)
        assert isinstance(first, Hold)
        tasks = [
            desk.simulation.start(desk.other.attempt(desk.spec(), None), desk.world)
            for _ in range(2)
        ]
        await sleep(desk.world, 0.1)
        queue = list(desk.store.names["lock", NAME].queue)
        await desk.one.lifecycle.release(first.tenure)
        assert list(desk.store.names["lock", NAME].records) == queue[:1]
        handed_at = desk.world.now()
        for task in tasks:  # whoever was handed the lock is told both things at once
            if not task.done:
                task.cancel()
                break
        await desk.simulation.turn()
        await sleep(desk.world, 0.01)
        assert sum(isinstance(task.result, Hold) for task in tasks) == 1
        assert all(r.claimed for r in desk.store.names["lock", NAME].records.values())
        for task in tasks:
            if isinstance(task.result, Hold):
                await desk.other.lifecycle.release(task.result.tenure)
        return desk.world.now() - handed_at

    assert desk.simulation.play(contend(), desk.world) < CLAIM_S / 2
    assert desk.is_untouched()


def test_a_revoked_holder_learns_the_reason_and_the_next_fence_is_higher(desk: Desk) -> None:
    async def work() -> None:
        hold = await desk.one.attempt(desk.spec(), 0.0)
        assert isinstance(hold, Hold)
        assert await administration.revoke(desk.other, NAME, "maintenance")
        heir = await desk.other.attempt(desk.spec(), 0.0)
        assert isinstance(heir, Hold)
        assert heir.tenure.grant.fence > hold.tenure.grant.fence
        assert await desk.one.wait_lost(hold.tenure, 0.5)
        with pytest.raises(Revoked, match="maintenance"):
            desk.one.lifecycle.check(hold.tenure)
        assert not await desk.one.lifecycle.release(hold.tenure)
        assert desk.other.lifecycle.remaining(heir.tenure) > 0
        desk.other.lifecycle.check(heir.tenure)
        assert await desk.other.lifecycle.release(heir.tenure)

    desk.simulation.play(work(), desk.world)
    assert desk.is_untouched()


def test_a_release_that_is_cancelled_still_releases(desk: Desk) -> None:
    async def slow_release() -> None:
        hold = await desk.one.attempt(desk.spec(), 0.0)
        assert isinstance(hold, Hold)
        task = desk.simulation.current
        assert task is not None
        task.cancel()
        with pytest.raises(Cancelled):
            await desk.one.lifecycle.release(hold.tenure)

    desk.simulation.play(slow_release(), desk.world)
    assert desk.is_untouched()


def test_a_timeout_leaves_the_queue_and_the_next_in_line_moves_up(desk: Desk) -> None:
    async def contend() -> None:
        first = await desk.one.attempt(desk.spec(), 0.0)
        assert isinstance(first, Hold)
        patient = desk.simulation.start(desk.other.attempt(desk.spec(), None), desk.world)
        await sleep(desk.world, 0.1)
        assert isinstance(await desk.other.attempt(desk.spec(), 0.3), Busy)
        assert len(desk.store.names["lock", NAME].queue) == 1
        await desk.one.lifecycle.release(first.tenure)
        await desk.world.wait(patient.ended, None)
        assert isinstance(patient.result, Hold)
        await desk.other.lifecycle.release(patient.result.tenure)

    desk.simulation.play(contend(), desk.world)
    assert desk.is_untouched()


@pytest.mark.parametrize("again", [0.01, 0.5])
@pytest.mark.parametrize("silent", [("withdraw",), ("unwatch", "withdraw")], ids="+".join)
def test_a_waiter_of_a_silent_engine_ends_a_second_after_it_was_cancelled(
    desk: Desk, silent: tuple[str, ...], again: float
) -> None:
    """As cancelled, however often it is; and what it left is taken back when the engine answers."""
    faults = Faults()
    client = desk.client(faults)

    async def contend() -> None:
        first = await desk.one.attempt(desk.spec(), 0.0)
        assert isinstance(first, Hold)
        waiter = desk.simulation.start(client.attempt(desk.spec(), None), desk.world)
        await sleep(desk.world, 0.5)
        faults.hang(*silent)
        cancelled_at = desk.world.now()
        waiter.cancel()
        await sleep(desk.world, again)
        waiter.cancel()
        assert await desk.world.wait(waiter.ended, cancelled_at + GRACE_S + 0.001)
        assert waiter.was_cancelled
        assert [owed.name for owed in client.owed()] == [NAME]
        faults.heal()
        await sleep(desk.world, ECHO_S + 1.0)
        assert client.owed() == ()
        assert await desk.one.lifecycle.release(first.tenure)

    desk.simulation.play(contend(), desk.world)
    assert desk.is_untouched()


@pytest.mark.parametrize("cancel_after", [0.3, 0.5, 0.7, 1.2])
def test_a_cancellation_does_not_make_a_call_last_longer(desk: Desk, cancel_after: float) -> None:
    """Neither before its timeout is over nor while it takes its attempt back."""
    faults = Faults()
    client = desk.client(faults)

    async def contend() -> None:
        first = await desk.one.attempt(desk.spec(), 0.0)
        assert isinstance(first, Hold)
        began_at = desk.world.now()
        waiter = desk.simulation.start(client.attempt(desk.spec(), 0.5), desk.world)
        await sleep(desk.world, 0.1)
        faults.hang("acquire", "withdraw")
        await sleep(desk.world, cancel_after - 0.1)
        waiter.cancel()
        assert await desk.world.wait(waiter.ended, began_at + 0.5 + GRACE_S + 0.001)
        assert waiter.was_cancelled
        faults.heal()
        await sleep(desk.world, ECHO_S + 1.0)
        assert client.owed() == ()
        assert await desk.one.lifecycle.release(first.tenure)

    desk.simulation.play(contend(), desk.world)
    assert desk.is_untouched()


@pytest.mark.parametrize("heal_after", [0.001, 0.03, 0.2])
def test_a_connection_keeps_its_order_over_a_cut(heal_after: float) -> None:
    """What is under way when the cut begins arrives before what is sent during it."""
    for seed in range(20):
        simulation, heard = Simulation(seed), list[object]()
        network, ends = Network(simulation, Conditions(delay_max=0.05)), (Host("a"), Host("b"))
        pipe, way = Pipe(network, *ends, heard.append), [("a", "b")]
        with simulation:
            pipe.carry(1)
            pipe.send(partial(heard.append, 2))
            network.cut(way)
            pipe.carry(3)
            simulation.at(0.02, partial(pipe.carry, 4))
            simulation.at(heal_after, partial(network.heal, way))
            simulation.at(heal_after, partial(pipe.carry, 5))
            simulation.run(until=1.0)
        expected = [1, 2, 3, 4, 5] if heal_after > 0.02 else [1, 2, 3, 5, 4]
        assert heard == expected
