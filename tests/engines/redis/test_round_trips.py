"""How often a client speaks to the server, counted on the wire."""

from __future__ import annotations

import pytest

from fencelock import aio
from fencelock.model import Grant
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.shared import shared

WAITERS = 20
BATCH = 250  # what the keeper renews at once


def single() -> Redis:
    return Redis()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def warm(client: aio.Client) -> None:
    """Do everything once, so that connections are open and scripts are known."""
    async with client.lock("warm", ttl=60) as lease:
        await lease.renew()
        assert await client.lock("warm").try_acquire() is None


def test_acquire_release_renew_and_a_failed_try_are_one_round_trip_each(flavor: str) -> None:
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(f"redis://{proxy.address}/0")
            await warm(client)
            lock = client.lock("seat", ttl=60)
            proxy.count_from_now()
            lease = await lock.acquire()
            assert proxy.requests == 1
            assert await lock.try_acquire() is None
            assert proxy.requests == 2
            await lease.renew()
            assert proxy.requests == 3
            assert await lease.release() is True
            assert (proxy.requests, proxy.connections) == (4, 0)

        run(flavor, scenario)


def test_all_waiters_of_a_client_are_called_by_one_connection(flavor: str) -> None:
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(f"redis://{proxy.address}/0")
            other = await lab.connect(server.url)
            lease = await other.lock("seat", ttl=60).acquire()

            async def take_a_turn() -> None:
                async with client.lock("seat", ttl=60, timeout=60):
                    pass

            waiting = [lab.start(take_a_turn()) for _ in range(WAITERS)]
            await lab.until_queued(other, "seat", WAITERS)
            channels = server.cli("PUBSUB", "CHANNELS", "fencelock:inbox:*")
            assert len(channels) == 1
            assert server.cli("PUBSUB", "NUMSUB", *channels)[1] == 1
            if flavor == "asyncio":
                assert proxy.open <= 3, "one to ask, one to be called, one for the keeper"
            assert await lease.release() is True
            for job in waiting:
                await job.result()

        run(flavor, scenario)


def test_a_turn_that_is_waited_for_is_two_round_trips(flavor: str) -> None:
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(f"redis://{proxy.address}/0")
            other = await lab.connect(server.url)

            async def take_a_turn() -> None:
                async with client.lock("seat", ttl=60, timeout=60):
                    pass

            for _ in range(2):  # the first time it has to subscribe as well
                lease = await other.lock("seat", ttl=60).acquire()
                proxy.count_from_now()
                turn = lab.start(take_a_turn())
                await lab.until_queued(other, "seat", 1)
                assert await lease.release() is True
                await turn.result()
            assert (proxy.requests, proxy.connections) == (2, 0)

        run(flavor, scenario)


def test_a_batch_of_renewals_is_one_round_trip(flavor: str) -> None:
    server = shared(single)
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(f"redis://{proxy.address}/0")
            await warm(client)
            leases = [await client.lock(f"seat:{n}", ttl=60).acquire() for n in range(BATCH)]
            proxy.count_from_now()
            grants = [lease._hold.grant for lease in leases]
            answers = await client._core.engine.renew(grants)
            assert [type(answer) for answer in answers] == [Grant] * BATCH
            assert (proxy.requests, proxy.connections) == (1, 0)
            for lease in leases:
                await lease.release()

        run(flavor, scenario)
