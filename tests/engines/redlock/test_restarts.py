"""Nodes that come back, with or without their data, and leases that are renewed meanwhile."""

from __future__ import annotations

from fencelock import LeaseLost
from tests.engines.redlock.conftest import Network
from tests.engines.redlock.holding import everywhere, has_key
from tests.faults.flavors import SOON, Lab, make_due, make_end, run
from tests.servers.redlock import Nodes


def test_a_node_that_comes_back_votes_again(flavor: str, nodes: Nodes) -> None:
    """A dead node is tried again in the background, and serves as soon as it is there."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        nodes.nodes[0].kill()
        async with client.lock("seat", ttl=60):
            pass
        nodes.nodes[0].start()
        numbers = iter(range(10_000))

        async def is_asked() -> bool:
            name = f"seat {next(numbers)}"
            async with client.lock(name, ttl=60):
                return has_key(nodes, 0, name)

        while not await is_asked():
            await lab.let_pass(0.01)
        nodes.nodes[1].kill()
        async with client.lock("seat", ttl=60):
            pass

    run(flavor, scenario)


def test_a_release_reaches_a_node_that_could_not_hear_it(flavor: str) -> None:
    """It was hung, then killed, and remembers the key: the release is sent when it is back."""
    with Nodes(persistence="always") as nodes:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(nodes.url)
            first = await client.lock("hung", ttl=60).acquire()
            second = await client.lock("dead", ttl=60).acquire()
            await everywhere(lab, nodes, "hung")
            await everywhere(lab, nodes, "dead")
            nodes.nodes[0].pause()
            assert await first.release() is True
            nodes.nodes[0].kill()
            for _ in range(2):  # one to see that it is gone, one that knows
                async with client.lock("between", ttl=60):
                    pass
            assert await second.release() is True
            nodes.nodes[0].start()
            assert has_key(nodes, 0, "hung")
            while has_key(nodes, 0, "hung") or has_key(nodes, 0, "dead"):
                async with client.lock("seat", ttl=60):  # any call at all
                    await lab.let_pass(0.01)

        run(flavor, scenario)


def test_a_node_that_restarts_empty_does_not_end_a_lease(flavor: str, nodes: Nodes) -> None:
    """H45: a minority that forgot does not matter: others are kept out, the holder renews."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(nodes.url), await lab.connect(nodes.url)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        await everywhere(lab, nodes)
        nodes.nodes[0].kill()
        nodes.nodes[0].start()
        for _ in range(3):
            assert await other.lock("seat").try_acquire() is None
            await lab.until_renewed(lease)
        assert not has_key(nodes, 0), "a renewal must not take the lock again"
        assert not told
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_majority_that_restarts_empty_ends_a_lease_and_the_fence_protects(
    flavor: str, nodes: Nodes
) -> None:
    """H45: nobody can keep the promise then. The old holder is told, the new fence is higher."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(nodes.url), await lab.connect(nodes.url)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        for node in nodes.nodes[:2]:
            node.kill()
            node.start()
        taken = await other.lock("seat", ttl=60).acquire(timeout=SOON)
        assert taken.fence > lease.fence
        make_due(lease)
        await lab.until(lambda: told, "the old holder to be told")
        assert await lease.release() is False
        taken.check()
        assert await taken.release() is True

    run(flavor, scenario)


def test_a_renewal_without_a_majority_is_tried_again_until_the_lease_ends(
    flavor: str, network: Network
) -> None:
    """H05: two nodes are cut off for less than a ttl, and then for more."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(network.url)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        for proxy in network.proxies[:2]:
            proxy.cut()
        make_due(lease)
        await lab.until(lambda: lease._hold.failure, "a failed renewal")
        for proxy in network.proxies[:2]:
            proxy.heal()
        await lab.until_renewed(lease)
        assert not told
        for proxy in network.proxies[:2]:
            proxy.cut()
        make_due(lease)
        await lab.until(lambda: lease._hold.failure, "another failed renewal")
        make_end(lease)
        await lab.until(lambda: told, "the holder to be told")
        assert "could not be renewed" in str(lease.reason)

    run(flavor, scenario)


def test_leases_that_can_be_renewed_do_not_suffer_from_one_that_cannot(
    flavor: str, nodes: Nodes
) -> None:
    """One node has forgotten an older lease and one is hung: a newer lease has its majority."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(nodes.url)
        old = await client.lock("old", ttl=6, on_lost=told.append).acquire()
        await everywhere(lab, nodes, "old")
        nodes.nodes[0].cli("DEL", "old")
        new = await client.lock("new", ttl=6, on_lost=told.append).acquire()
        await everywhere(lab, nodes, "new")
        nodes.nodes[1].pause()
        try:
            # One yes, one no, one silent: neither renewed nor known to be gone.
            make_due(old)
            await lab.until(lambda: old._hold.failure, "a failed renewal")
            make_end(old)
            await lab.until(lambda: told, "the older lease to be lost")
            assert [loss.name for loss in told] == ["old"]
            await lab.until_renewed(new)
        finally:
            nodes.nodes[1].resume()
        assert old.lost.is_set()
        assert await new.release() is True

    run(flavor, scenario)
