"""Nodes without memory: they drop locks, or refuse to write."""

from __future__ import annotations

import pytest

from fencelock import LeaseLost, Unavailable
from tests.faults.flavors import Lab, run
from tests.servers.redlock import Nodes


def drop(nodes: Nodes, *places: int) -> None:
    """Have nodes forget the lock, as a server does that needs its memory for something else."""
    for place in places:
        assert nodes.nodes[place].cli("DEL", "seat") == 1


def fill(nodes: Nodes, *places: int) -> None:
    """Leave no room for anything."""
    for place in places:
        nodes.nodes[place].cli("CONFIG", "SET", "maxmemory", "1")


def test_a_lock_that_a_majority_dropped_is_lost_and_the_fence_protects(
    flavor: str, nodes: Nodes
) -> None:
    """H41: what one node dropped is not missed; when two have, the holder is told."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(nodes.url), await lab.connect(nodes.url)
        lease = await client.lock("seat", ttl=60).acquire()
        await lab.until(lambda: _holding(nodes) == 3, "the last node's vote")
        drop(nodes, 0)
        assert await other.lock("seat").try_acquire() is None
        await lease.renew()
        drop(nodes, 1, 2)
        taken = await other.lock("seat", ttl=60).acquire(timeout=10)
        assert taken.fence > lease.fence
        with pytest.raises(LeaseLost):
            await lease.renew()
        assert await lease.release() is False
        await taken.release()

    run(flavor, scenario)


def test_full_nodes_refuse_and_a_majority_is_enough(flavor: str, nodes: Nodes) -> None:
    """H41: one that is full has no vote; when two are, nothing is granted and nothing is left."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        fill(nodes, 0)
        lease = await client.lock("seat", ttl=60).acquire(timeout=10)
        await lease.renew()
        assert await lease.release() is True
        fill(nodes, 1)
        with pytest.raises(Unavailable, match=r"OOM|memory"):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        await lab.until(lambda: _holding(nodes) == 0, "the attempt to be undone")

    run(flavor, scenario)


def _holding(nodes: Nodes) -> int:
    return sum(int(node.cli("EXISTS", "seat")) for node in nodes.nodes)
