"""How often each node is asked, counted on the wire."""

from __future__ import annotations

from fencelock import aio
from fencelock.model import Grant
from tests.engines.redlock.conftest import Network
from tests.faults.flavors import Lab, run


async def warm(lab: Lab, client: aio.Client, network: Network) -> None:
    """Do everything once, so that connections are open and scripts are known."""
    async with client.lock("warm", ttl=60) as lease:
        await lease.renew()
        await lab.until(lambda: min(p.open for p in network.proxies) == 2, "all connections")
        await lease.renew()
        assert await client.lock("warm").try_acquire() is None


async def one_each(lab: Lab, network: Network) -> None:
    """Each node was asked once. Nobody waits for the last one, so its answer may come later."""
    await lab.until(lambda: all(proxy.received for proxy in network.proxies), "all answers")
    assert network.requests == [1, 1, 1]
    await network.count_from_now(lab)


def test_each_verb_is_one_parallel_round(flavor: str, network: Network) -> None:
    """Acquire with its fence, a failed try, a renewal, a release: one request to each node."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(network.url)
        await warm(lab, client, network)
        lock = client.lock("seat", ttl=60)
        await network.count_from_now(lab)
        lease = await lock.acquire()
        await one_each(lab, network)
        await lease.renew()
        await one_each(lab, network)
        # Two refuse it, and that settles it. The third is undone behind its request, unasked for.
        assert await lock.try_acquire() is None
        await lab.until(lambda: all(proxy.received for proxy in network.proxies), "all answers")
        assert sorted(network.requests)[:2] == [1, 1]
        await network.count_from_now(lab)
        assert await lease.release() is True
        await one_each(lab, network)
        assert [proxy.connections for proxy in network.proxies] == [0, 0, 0]

    run(flavor, scenario)


def test_many_leases_are_renewed_by_one_request_to_each_node(flavor: str, network: Network) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(network.url)
        await warm(lab, client, network)
        leases = [await client.lock(f"seat {n}", ttl=60).acquire() for n in range(100)]
        await network.count_from_now(lab)
        grants = [lease._hold.grant for lease in leases]
        answers = await client._core.engine.renew(grants)
        renewed = [answer for answer in answers if isinstance(answer, Grant)]
        assert [grant.fence for grant in renewed] == [lease.fence for lease in leases]
        await one_each(lab, network)
        for lease in leases:
            assert await lease.release() is True

    if flavor == "asyncio":  # the batch is asked of the engine itself
        run(flavor, scenario)


def test_all_threads_and_tasks_share_one_connection_to_each_node(
    flavor: str, network: Network
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(network.url)

        async def take_turns(number: int) -> None:
            for _ in range(5):
                async with client.lock(f"seat {number}", ttl=60):
                    pass

        for job in [lab.start(take_turns(number)) for number in range(20)]:
            await job.result()
        await lab.until(lambda: min(p.connections for p in network.proxies) == 2, "the keeper's")
        assert [proxy.connections for proxy in network.proxies] == [2, 2, 2]

    run(flavor, scenario)
