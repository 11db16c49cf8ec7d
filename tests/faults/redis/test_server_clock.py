"""The server's wall clock steps: leases end early or late, fences only grow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fencelock import LeaseLost, StaleFence
from tests.faults.flavors import Lab, make_due, run
from tests.faults.resource import Resource
from tests.servers.clock import Clock
from tests.servers.redis import Redis
from tests.servers.server import until

HOUR = 3600.0


class Misled(NamedTuple):
    """A server whose clock is in our hands."""

    server: Redis
    clock: Clock

    def step(self, seconds: float) -> None:
        """Step, and see that the server has noticed."""
        expected = self.server.time() + seconds
        self.clock.step(seconds)
        until(lambda: abs(self.server.time() - expected) < 60, "the server's clock to step")


@pytest.fixture
def misled(tmp_path: Path) -> Iterator[Misled]:
    clock = Clock(tmp_path)
    server = Redis()
    server.environment |= clock.environment
    with server:
        yield Misled(server, clock)


def test_a_step_forward_ends_the_lease_and_the_fence_protects(
    flavor: str, misled: Misled, tmp_path: Path
) -> None:
    """H34: the server believes that the lease is over. The holder is told, the resource refuses."""

    async def scenario(lab: Lab) -> None:
        resource = Resource(tmp_path / "resource")
        client = await lab.connect(misled.server.url)
        other = await lab.connect(misled.server.url)
        lease = await client.lock("seat", ttl=30).acquire()
        misled.step(HOUR)
        taken = await other.lock("seat", ttl=30).acquire(timeout=0)
        assert taken.fence > lease.fence
        resource.write(taken.fence, "new")
        with pytest.raises(StaleFence):
            resource.write(lease.fence, "old")
        with pytest.raises(LeaseLost):
            await lease.renew()
        assert await lease.release() is False
        taken.check()
        await taken.release()

    run(flavor, scenario)


def test_the_holder_learns_of_a_step_forward_by_its_next_renewal(
    flavor: str, misled: Misled
) -> None:
    """H34: nobody has to ask: the keeper is told that the key is gone, long before the ttl ends."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(misled.server.url)
        lease = await client.lock("seat", ttl=60).acquire()
        misled.step(HOUR)
        make_due(lease)
        assert await lease.lost.wait(timeout=10)
        assert lease.reason is not None
        assert "gone" in lease.reason

    run(flavor, scenario)


def test_a_step_back_keeps_the_holder_and_its_release_frees(flavor: str, misled: Misled) -> None:
    """H34: the key would live longer than its lease; renewing and releasing set that right."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(misled.server.url)
        other = await lab.connect(misled.server.url)
        lease = await client.lock("seat", ttl=5).acquire()
        misled.step(-HOUR)
        await lease.renew()
        (holding,) = await other.holders("seat")
        assert holding.remaining <= 5
        assert await other.lock("seat").try_acquire() is None
        assert await lease.release() is True
        taken = await other.lock("seat").acquire(timeout=0)
        assert taken.fence > lease.fence
        await taken.release()

    run(flavor, scenario)


@pytest.mark.parametrize("seed", range(3))
def test_fences_grow_whatever_the_servers_clock_does(
    flavor: str, misled: Misled, seed: int
) -> None:
    """H34: forward and back at random, by less than a record is kept, each time with a grant."""
    chance = random.Random(seed)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(misled.server.url)
        fences = []
        for _ in range(12):
            for _ in range(chance.randrange(1, 4)):
                async with client.lock("seat", ttl=30) as lease:
                    fences.append(lease.fence)
            misled.step(chance.uniform(-0.9, 0.9) * HOUR)
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_waiters_are_served_in_their_order_although_the_clock_steps(
    flavor: str, misled: Misled
) -> None:
    """H34: who came first is not a matter of the time at which it came."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(misled.server.url)
        holder = await client.lock("seat", ttl=30).acquire()
        waiting = []
        for number, step in enumerate([-60.0, -60.0, 10.0, -60.0]):
            waiting.append(lab.start(client.lock("seat", ttl=30).acquire(timeout=30)))
            await lab.until_queued(client, "seat", number + 1)
            misled.step(step)
        assert await holder.release() is True
        fences = [holder.fence]
        for one in waiting:
            lease = await one.result()
            fences.append(lease.fence)
            assert await lease.release() is True
        assert fences == sorted(set(fences))

    run(flavor, scenario)
