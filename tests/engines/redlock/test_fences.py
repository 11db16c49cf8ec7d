"""Fences over a majority: they grow, whoever forgets and whatever the clocks say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fencelock import Unsupported
from fencelock.engines.redlock.scripts import script
from tests.engines.redlock.conftest import Network
from tests.faults.flavors import Lab, Late, run
from tests.servers.clock import Clock
from tests.servers.redlock import Nodes
from tests.servers.server import until

HOUR = 3600.0
RECORD = "{seat}:fencelock"


class Misled(NamedTuple):
    """Nodes whose clocks are in our hands."""

    nodes: Nodes
    clocks: list[Clock]

    def step(self, place: int, seconds: float) -> None:
        """Step a node's clock, and see that the node has noticed."""
        node = self.nodes.nodes[place]
        expected = node.time() + seconds
        self.clocks[place].step(seconds)
        until(lambda: abs(node.time() - expected) < 60, "the node's clock to step")


@pytest.fixture
def misled(tmp_path: Path) -> Iterator[Misled]:
    nodes = Nodes()
    clocks: list[Clock] = []
    for place, node in enumerate(nodes.nodes):
        folder = tmp_path / f"clock-{place}"
        folder.mkdir()
        clocks.append(Clock(folder))
        node.environment |= clocks[place].environment
    with nodes:
        yield Misled(nodes, clocks)


def fences(nodes: Nodes) -> list[int]:
    """What each node has on record."""
    return [int(str(record or "0").split()[0]) for record in nodes.cli("GET", RECORD)]


async def all_have(lab: Lab, nodes: Nodes, fence: int) -> bool:
    """Nobody waits for the last node: see whether it gets the fence too.

    It may have refused it, if it heard of this acquire before it heard of the last release.
    """
    try:
        await lab.until(lambda: min(fences(nodes)) == fence, "all nodes to have it", within=3.0)
    except Late:
        return False
    return True


def test_the_fence_of_a_lease_is_on_record_at_a_majority(flavor: str, nodes: Nodes) -> None:
    """Before the lease is handed out, so that any later majority has seen it."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        async with client.lock("seat", ttl=60) as lease:
            assert fences(nodes).count(lease.fence) >= 2

    run(flavor, scenario)


def test_fences_grow_while_nodes_forget_in_turn(flavor: str, nodes: Nodes) -> None:
    """One of three loses its data between any two grants: the other two remember."""

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(nodes.url) for _ in range(2)]
        last = 0
        for turn in range(12):
            async with clients[turn % 2].lock("seat", ttl=60, timeout=10) as lease:
                assert lease.fence > last
                last = lease.fence
                every = await all_have(lab, nodes, last)
            if every:
                nodes.nodes[turn % 3].cli("FLUSHALL")

    run(flavor, scenario)


def test_a_proposal_that_is_not_high_enough_is_lifted_in_a_second_round(
    flavor: str, network: Network
) -> None:
    """Another's clock ran ahead: the highest at a majority is read, and one above is written."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(network.url)
        async with client.lock("seat", ttl=60) as lease:
            ahead = lease.fence + 10**12
        for node in network.nodes.nodes[:2]:
            node.cli("SET", RECORD, f"{ahead} somebody 1 1000 0 {{}}", "PX", 60_000)
        async with client.lock("seat", ttl=60) as lease:  # the script of the second round is new
            assert lease.fence > ahead
        ahead = lease.fence + 10**12
        for node in network.nodes.nodes[:2]:
            node.cli("SET", RECORD, f"{ahead} somebody 1 1000 0 {{}}", "PX", 60_000)
        await network.count_from_now(lab)
        async with client.lock("seat", ttl=60) as lease:
            assert lease.fence == ahead + 1
            assert fences(network.nodes).count(lease.fence) >= 2
            assert sorted(network.requests)[1] == 2  # a majority; a late third may lack the script
            (holding,) = await client.holders("seat")
            assert holding.fence == lease.fence

    run(flavor, scenario)


def test_a_node_takes_a_fence_only_for_the_holder_of_its_key(nodes: Nodes) -> None:
    """The second round, at one node: the key must be ours there, and no higher fence known."""
    node = nodes.nodes[0]

    def write(owner: str, fence: int) -> object:
        source = script("fence").source
        return node.cli("EVAL", source, 2, "seat", RECORD, owner, 60_000, fence, "{}")

    assert write("a", 5) == 0, "the key is nobody's"
    assert node.cli("EXISTS", RECORD) == 0
    node.cli("SET", "seat", "a", "PX", 60_000)
    assert write("b", 9) == 0, "the key is another's"
    assert write("a", 5) == 1
    assert write("a", 5) == 1, "asked again after a lost answer"
    node.cli("SET", "seat", "b", "PX", 60_000)
    assert write("b", 4) == "5", "what is in the way"
    assert write("b", 5) == "5", "two holders never share a fence"
    assert write("b", 6) == 1
    assert node.cli("GET", RECORD).startswith("6 b ")


def test_fences_grow_when_clocks_step_and_a_minority_forgets(flavor: str, misled: Misled) -> None:
    """H34: hours forth and back, at random, and one node at a time that loses its data."""
    dice = random.Random(7)

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(misled.nodes.url) for _ in range(3)]
        last = 0
        for turn in range(25):
            async with clients[dice.randrange(3)].lock("seat", ttl=7200, timeout=10) as lease:
                assert lease.fence > last, f"turn {turn}"
                last = lease.fence
                every = await all_have(lab, misled.nodes, last)
            fate = dice.randrange(3) if every else 2
            if fate == 0:
                misled.step(dice.randrange(3), dice.choice([-0.5, 0.4]) * HOUR)
            elif fate == 1:
                misled.nodes.nodes[dice.randrange(3)].cli("FLUSHALL")

    run(flavor, scenario)


def test_fences_grow_when_all_nodes_have_forgotten(flavor: str, nodes: Nodes) -> None:
    """H35: the clock term carries it, for clients that were there and for new ones."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        async with client.lock("seat", ttl=60) as lease:
            first = lease.fence
        for node in nodes.nodes:
            node.kill()
            node.start()
        async with client.lock("seat", ttl=60, timeout=10) as lease:
            assert lease.fence > first
            second = lease.fence
        nodes.cli("FLUSHALL")
        newcomer = await lab.connect(nodes.url)
        async with newcomer.lock("seat", ttl=60, timeout=10) as lease:
            assert lease.fence > second

    run(flavor, scenario)


def test_one_wrong_clock_does_not_move_the_fence(flavor: str, misled: Misled) -> None:
    """The middle one of the nodes' clocks is taken: one that is a day ahead is not believed."""
    misled.step(0, 24 * HOUR)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(misled.nodes.url)
        async with client.lock("seat", ttl=60) as lease:
            assert abs(lease.fence / 1e6 - misled.nodes.nodes[1].time()) < 60

    run(flavor, scenario)


def test_records_of_names_that_are_not_used_expire(flavor: str, nodes: Nodes) -> None:
    """Nothing is kept for ever: what a lock leaves behind has a time to live at every node."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        async with client.lock("seat", ttl=60) as lease:
            await lease.renew()
        assert await client.revoke("seat", "nobody holds it") is False
        await lab.until(lambda: not any(nodes.cli("EXISTS", "seat")), "the keys to be gone")
        for node in nodes.nodes:
            for key in node.cli("KEYS", "*"):
                assert 0 < node.cli("PTTL", key) <= 3_660_000

    run(flavor, scenario)


def test_without_fences_nothing_is_promised_of_them(flavor: str, nodes: Nodes) -> None:
    """``fence=no``: the traits say so, correctness is refused, a lease has no number."""

    async def scenario(lab: Lab) -> None:
        fenced = await lab.connect(nodes.url)
        async with fenced.lock("seat", ttl=60) as lease:
            first = lease.fence
        client = await lab.connect(f"{nodes.url}?fence=no")
        assert client.traits.fence is False
        with pytest.raises(Unsupported):
            client.lock("seat", safety="correctness")
        async with client.lock("seat", ttl=60) as lease:
            assert lease.fence == 0
            (holding,) = await fenced.holders("seat")
            assert holding.meta == lease.meta
        async with fenced.lock("seat", ttl=60) as lease:
            assert lease.fence > first, "whoever locks without fences must not forget them"

    run(flavor, scenario)
