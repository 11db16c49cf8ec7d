"""Keyed draws: an edit that concerns one process moves nothing of what the others do."""

from __future__ import annotations

from functools import partial

import pytest

from fencelock.sim.network import Conditions, Host, Network
from fencelock.sim.scheduler import Draws
from fencelock.sim.world import Simulation, SimWorld
from fencelock.world import sleep

Seen = list[tuple[str, float, object]]


def played(draws: Draws, processes: dict[str, int]) -> Seen:
    """Processes that draw, sleep and send each other messages, and what each of them saw."""
    seen: Seen = []
    with Simulation(7, draws=draws) as simulation:
        network = Network(simulation, Conditions(delay_max=0.5, lost=0.2, overtaken=0.2))
        hosts = {name: Host(name) for name in (*processes, "server")}

        async def live(world: SimWorld, times: int) -> None:
            host = hosts[world.name]
            for number in range(times):
                await sleep(world, world.random())
                seen.append((world.name, simulation.now, world.owner()))
                network.datagram(host, hosts["server"], partial(arrived, world.name, number))
                for _ in range(2):
                    simulation.start(turn(world, number), world, "turn")

        async def turn(world: SimWorld, number: int) -> None:
            await simulation.turn()
            current = simulation.current
            seen.append((world.name, simulation.now, current.label if current else number))

        def arrived(name: str, number: int) -> None:
            seen.append((name, simulation.now, number))

        for name, times in processes.items():
            world = simulation.world(name)
            simulation.start(live(world, times), world)
        simulation.run()
    return seen


def of(names: str, seen: Seen) -> Seen:
    return [one for one in seen if one[0] in names]


@pytest.mark.parametrize("bystander", ["0", "b2", "z"])
def test_a_bystander_changes_nothing_for_others(bystander: str) -> None:
    alone = played("keyed", {"a": 8, "b": 8, "c": 8})
    assert len(alone) > 60
    beside = played("keyed", {"a": 8, bystander: 8, "b": 8, "c": 8})
    assert len(beside) > len(alone)
    assert of("abc", beside) == alone


def test_what_one_process_draws_does_not_move_another() -> None:
    assert of("b", played("keyed", {"a": 9, "b": 8})) == of("b", played("keyed", {"a": 3, "b": 8}))


def test_one_stream_for_all_moves_everybody() -> None:
    alone = played("one", {"a": 8, "b": 8})
    assert of("ab", played("one", {"a": 8, "b": 8, "c": 8})) != alone


def test_keyed_plays_are_the_same_every_time_and_differ_by_seed() -> None:
    assert played("keyed", {"a": 5, "b": 5}) == played("keyed", {"a": 5, "b": 5})
    draws = {Simulation(seed, draws="keyed").stream("way a b")() for seed in range(20)}
    assert len(draws) == 20


def test_the_common_stream_cannot_be_used_by_mistake() -> None:
    with pytest.raises(RuntimeError, match="stream of its own"):
        Simulation(1, draws="keyed").random()
