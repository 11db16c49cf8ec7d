"""Another server takes over: perhaps one that does not know of the last grants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fencelock import LeaseLost, StaleFence, Unavailable
from tests.faults.flavors import SOON, Lab, run
from tests.faults.redis.links import renew_anew
from tests.faults.resource import Resource
from tests.servers.cluster import Cluster
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.sentinel import Sentinels
from tests.servers.server import until


class Pair(NamedTuple):
    """A primary, and a replica that follows it through a network that can be cut."""

    primary: Redis
    replica: Redis
    between: Proxy


@pytest.fixture
def pair(server: Redis) -> Iterator[Pair]:
    with Proxy(server.port) as proxy, Redis(replica_of=server) as replica:
        replica.cli("REPLICAOF", "127.0.0.1", proxy.port)
        until(lambda: proxy.open and replica.follows(), "the replica to follow through the proxy")
        yield Pair(server, replica, proxy)


def test_a_stale_replica_that_takes_over_is_survived_by_the_fence(
    flavor: str, pair: Pair, tmp_path: Path
) -> None:
    """H38: both hold, as Redis says itself. The resource takes the new one's word only."""

    async def scenario(lab: Lab) -> None:
        resource = Resource(tmp_path / "resource")
        client = await lab.connect(pair.primary.url)
        async with client.lock("seat", ttl=60):
            pass
        pair.replica.caught_up()
        pair.between.block()
        old = await client.lock("seat", ttl=60).acquire()
        resource.write(old.fence, "old")
        pair.replica.promote()
        other = await lab.connect(pair.replica.url)
        new = await other.lock("seat", ttl=60).acquire(timeout=0)
        assert new.fence > old.fence
        resource.write(new.fence, "new")
        with pytest.raises(StaleFence):
            resource.write(old.fence, "late")
        assert resource.value() == "new"
        await new.release()
        await old.release()

    run(flavor, scenario)


def test_a_grant_that_waits_for_a_replica_is_taken_back_when_none_has_it(
    flavor: str, pair: Pair
) -> None:
    """H38, ``replicas=1``: what a failover would forget is not handed out in the first place."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(pair.primary.url, replicas=1, request_timeout=2.0)
        async with client.lock("seat", ttl=60) as lease:
            assert pair.replica.cli("EXISTS", "seat") == 1
            lease.check()
        pair.between.block()
        with pytest.raises(Unavailable, match="0 of 1 replicas"):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        assert pair.primary.cli("EXISTS", "seat") == 0
        pair.between.heal()
        pair.replica.caught_up()
        async with client.lock("seat", ttl=60) as again:
            assert again.fence > lease.fence

    run(flavor, scenario)


def test_a_lease_survives_a_failover_of_sentinels(flavor: str) -> None:
    """H38: the replica had it all: the lease goes on there, and a waiter gets it afterwards."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(group.url), await lab.connect(group.url)
        lease = await client.lock("seat", ttl=12, on_lost=told.append).acquire()
        waiting = lab.start(other.lock("seat", ttl=20).acquire(timeout=60))
        await lab.until_queued(client, "seat", 1)
        for replica in group.replicas():
            replica.caught_up()
        group.fail_over()
        await lab.until_renewed(lease, within=20)
        assert not told
        assert not waiting.done()
        assert await lease.release() is True
        taken = await waiting.result(within=20)
        assert taken.fence > lease.fence
        await taken.release()

    with Sentinels() as group:
        run(flavor, scenario)


def test_a_lease_survives_a_failover_in_a_cluster_and_the_move_of_its_slot(flavor: str) -> None:
    """H38: the node that serves the name dies, and the slot is moved to another later."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(cluster.url), await lab.connect(cluster.url)
        lease = await client.lock("seat", ttl=20, on_lost=told.append).acquire()
        cluster.fail_over("seat")
        await renew_anew(lease)
        assert await other.lock("seat").try_acquire() is None
        here = cluster.owner_of("seat")
        cluster.move("seat", next(node for node in cluster.primaries() if node is not here))
        await renew_anew(lease)
        waiting = lab.start(other.lock("seat", ttl=20).acquire(timeout=60))
        await lab.until_queued(client, "seat", 1)
        assert await lease.release() is True
        taken = await waiting.result(within=SOON)
        assert taken.fence > lease.fence
        assert not told
        await taken.release()

    with Cluster() as cluster:
        run(flavor, scenario)
