"""A server that stands still for longer than a lease lasts."""

from __future__ import annotations

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Unavailable
from tests.faults.flavors import SOON, Lab, run
from tests.servers.redis import Redis

TIMEOUT = 1.5


def test_a_holder_gives_up_in_time_while_the_server_stands_still(
    flavor: str, server: Redis
) -> None:
    """H39: its own clock tells, counted from before the request; late answers change nothing."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(server.url, request_timeout=TIMEOUT)
        other = await lab.connect(server.url)
        lease = await client.lock("seat", ttl=0.9, on_lost=told.append).acquire()
        server.pause()
        await lab.until(lambda: told, "on_lost")
        assert not lease
        server.resume()
        taken = await other.lock("seat", ttl=60).acquire(timeout=SOON)
        assert taken.fence > lease.fence
        assert await lease.release() is False
        taken.check()
        await taken.release()

    run(flavor, scenario)


def test_a_grant_that_came_too_late_is_not_handed_out_and_ends_by_itself(
    flavor: str, server: Redis
) -> None:
    """H39: the caller was told that it is not known; what the server did later lasts one ttl."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url, request_timeout=TIMEOUT)
        async with client.lock("warm"):
            pass
        server.pause()
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await client.lock("seat", ttl=2.0).acquire(timeout=0)
        server.resume()
        other = await lab.connect(server.url)
        taken = await other.lock("seat", ttl=60).acquire(timeout=SOON)
        taken.check()
        await taken.release()

    run(flavor, scenario)


def test_waiters_go_on_when_the_server_does(flavor: str, server: Redis) -> None:
    """H39: the queue and its order outlive a standstill that no waiter gave up in."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url, request_timeout=TIMEOUT)
        holder = await client.lock("seat", ttl=60).acquire()
        waiting = []
        for number in range(3):
            waiting.append(lab.start(client.lock("seat", ttl=60).acquire(timeout=60)))
            await lab.until_queued(client, "seat", number + 1)
        server.pause()
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await client.inspect("seat")
        server.resume()
        assert await holder.release() is True
        for one in waiting:
            lease = await one.result()
            assert await lease.release() is True

    run(flavor, scenario)
