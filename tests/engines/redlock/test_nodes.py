"""Nodes that die, hang, restart or were never there: a minority of them costs nothing."""

from __future__ import annotations

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Unavailable
from tests.engines.redlock.conftest import Network
from tests.engines.redlock.holding import everywhere, has_key
from tests.faults.flavors import Lab, run
from tests.servers.link import TO_CLIENT
from tests.servers.redlock import Nodes

TIMEOUT = 1.0


def test_a_dead_node_costs_nothing(flavor: str, nodes: Nodes) -> None:
    """H43: one of three is killed while we are connected. Granted, renewed, released, no orphan."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(nodes.url), await lab.connect(nodes.url)
        async with client.lock("warm"):
            pass
        nodes.nodes[0].kill()
        for _ in range(3):
            lease = await client.lock("seat", ttl=60).acquire(timeout=0)
            await lease.renew()
            assert await other.lock("seat").try_acquire() is None
            assert await lease.release() is True
        assert not has_key(nodes, 1)
        assert not has_key(nodes, 2)

    run(flavor, scenario)


def test_a_lease_outlives_the_death_of_a_node(flavor: str, nodes: Nodes) -> None:
    """H43: a node dies while the lock is held; the keeper goes on with the others."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(nodes.url)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        await everywhere(lab, nodes)
        nodes.nodes[2].kill()
        for _ in range(2):
            await lab.until_renewed(lease)
        assert not told
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_majority_of_dead_nodes_grants_nothing_and_leaves_no_orphan(
    flavor: str, nodes: Nodes
) -> None:
    """H43, H46: the one that is left has a vote, and one of three is no majority."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url, node_timeout=TIMEOUT)
        async with client.lock("warm"):
            pass
        nodes.nodes[0].kill()
        nodes.nodes[1].kill()
        # What a dead node has served before it died, nobody knows.
        with pytest.raises((Unavailable, OutcomeUnknown), match="answered and 2 are needed"):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        await lab.until(lambda: not has_key(nodes, 2), "the attempt to be undone")

    run(flavor, scenario)


def test_a_hung_node_costs_nothing_and_is_cleaned_up_when_it_wakes(
    flavor: str, nodes: Nodes
) -> None:
    """H44, H39: what the node was sent and never answered is undone, in order, behind it."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(nodes.url), await lab.connect(nodes.url)
        async with client.lock("warm"):
            pass
        nodes.nodes[0].pause()
        try:
            for _ in range(3):
                lease = await client.lock("seat", ttl=60).acquire(timeout=0)
                await lease.renew()
                assert await other.lock("seat").try_acquire() is None
                assert await lease.release() is True
            kept = await client.lock("kept", ttl=60).acquire(timeout=0)
        finally:
            nodes.nodes[0].resume()
        await lab.until(lambda: not has_key(nodes, 0), "the late request to be undone")
        kept.check()
        assert await kept.release() is True
        await lab.until(lambda: not has_key(nodes, 0, "kept"), "the last key to be released")

    run(flavor, scenario)


def test_grants_that_come_too_late_are_undone(flavor: str, network: Network) -> None:
    """H39, H44: two nodes hear and do not answer in time. Not granted, and nothing is left."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(network.url, node_timeout=TIMEOUT)
        async with client.lock("warm"):
            pass
        for proxy in network.proxies[:2]:
            proxy.block(TO_CLIENT)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        await lab.until(lambda: not any(network.nodes.cli("EXISTS", "seat")), "it to be undone")
        for proxy in network.proxies[:2]:
            proxy.heal()
        lease = await client.lock("seat", ttl=60).acquire(timeout=10)
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_late_answer_is_never_taken_for_that_to_the_next_request(
    flavor: str, network: Network
) -> None:
    """H12: a yes that comes late is the answer to the old question, and another is asked next."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(network.url, node_timeout=TIMEOUT)
        async with client.lock("warm"):
            pass
        network.nodes.nodes[2].kill()
        network.nodes.nodes[0].cli("SET", "other", "somebody else", "NX", "PX", 60_000)
        network.proxies[0].block(TO_CLIENT)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        network.proxies[0].heal()
        # Granted by one node, refused by one, and one is dead. A late yes would make it two.
        for _ in range(5):
            assert await client.lock("other", ttl=60).try_acquire() is None
        lease = await client.lock("seat", ttl=60).acquire(timeout=10)
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_quorum_is_one_of_the_nodes_that_are_configured(flavor: str, nodes: Nodes) -> None:
    """H46: started with one node down all is well; with two down nothing is granted."""
    nodes.nodes[1].kill()

    async def with_one_down(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        async with client.lock("seat", ttl=60) as lease:
            assert lease.fence > 0

    run(flavor, with_one_down)
    nodes.nodes[2].kill()

    async def with_two_down(lab: Lab) -> None:
        with pytest.raises(Unavailable, match="of 3 nodes answered and 2 are needed"):
            _ = await lab.connect(nodes.url)

    run(flavor, with_two_down)
    assert not has_key(nodes, 0)
