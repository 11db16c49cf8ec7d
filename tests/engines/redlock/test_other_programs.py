"""Other Redlock clients on the same keys: they keep us out, and we them.

They are played by hand, as published: ``SET key value NX PX ttl`` at each node, held with a
majority, released where the value is their own.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.faults.flavors import Lab, run
from tests.servers.redlock import Nodes

RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"


class Theirs(NamedTuple):
    """One who locks by the book."""

    nodes: Nodes
    value: str = "6a1ec0de"

    def lock(self, name: str, *at: int) -> bool:
        votes = self.nodes.cli("SET", name, self.value, "NX", "PX", 60_000, at=at)
        return votes.count("OK") >= len(self.nodes.nodes) // 2 + 1

    def unlock(self, name: str) -> None:
        self.nodes.cli("EVAL", RELEASE, 1, name, self.value)


def test_a_lock_of_theirs_keeps_us_out(flavor: str, nodes: Nodes) -> None:
    async def scenario(lab: Lab) -> None:
        client, theirs = await lab.connect(nodes.url), Theirs(nodes)
        assert theirs.lock("seat", 0, 1)  # a majority is enough
        for _ in range(3):
            assert await client.lock("seat").try_acquire() is None
        await lab.until(lambda: not nodes.nodes[2].cli("EXISTS", "seat"), "our vote to be undone")
        (holding,) = await client.holders("seat")
        assert (holding.fence, holding.meta) == (0, {"program": "not fencelock"})
        waiting = lab.start(client.lock("seat", timeout=30).acquire())
        theirs.unlock("seat")
        lease = await waiting.result()
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_lock_of_ours_keeps_them_out(flavor: str, nodes: Nodes) -> None:
    async def scenario(lab: Lab) -> None:
        client, theirs = await lab.connect(nodes.url), Theirs(nodes)
        async with client.lock("seat", ttl=60) as lease:
            assert not theirs.lock("seat")
            theirs.unlock("seat")
            lease.check()
            await lease.renew()
        assert theirs.lock("seat")

    run(flavor, scenario)


def test_a_split_vote_is_undone_and_tried_again(flavor: str, nodes: Nodes) -> None:
    """Two others have a node each: nobody has a majority, and we leave the third as it was."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        one, two = Theirs(nodes, "one"), Theirs(nodes, "two")
        assert not one.lock("seat", 0)
        assert not two.lock("seat", 1)
        assert await client.lock("seat").try_acquire() is None
        await lab.until(lambda: not nodes.nodes[2].cli("EXISTS", "seat"), "our vote to be undone")
        assert await client.holders("seat") == []
        waiting = lab.start(client.lock("seat", timeout=30).acquire())
        one.unlock("seat")
        lease = await waiting.result()
        two.unlock("seat")
        lease.check()
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_client_of_one_node_is_kept_out_too(flavor: str, nodes: Nodes) -> None:
    """The keys are those of redis://, and so are the records."""

    async def scenario(lab: Lab) -> None:
        client, single = await lab.connect(nodes.url), await lab.connect(nodes.nodes[0].url)
        async with client.lock("seat", ttl=60) as lease:
            await lab.until_held(single, "seat")
            assert await single.lock("seat").try_acquire() is None
            (holding,) = await single.holders("seat")
            assert holding.fence == lease.fence

    run(flavor, scenario)
