"""Nodes of the lock service over ZooKeeper: a lease moves to the node that renews it."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import Unsupported
from tests.engines.zookeeper.tree import contenders, folder
from tests.faults.flavors import Lab, run
from tests.servers.service import Services
from tests.servers.zookeeper import ZooKeeper

NAME = "seat"
TTL = 30.0


def test_a_lease_outlives_the_node_of_the_service_that_granted_it(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()

    def session() -> int:
        (child,) = contenders(kazoo, url, NAME)
        stat = kazoo.exists(f"{folder(url, NAME)}/{child}")
        return int(stat.ephemeralOwner)

    with Services(f"{url}?session=60") as nodes:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(nodes.url)
            other = await lab.connect(nodes.nodes[1].url)
            lease = await client.lock(NAME, ttl=TTL).acquire()
            granted_in = session()
            nodes.nodes[0].kill()
            await lease.renew()
            assert session() != granted_in, "it ends with the node that was killed"
            (shown,) = await other.holders(NAME)
            assert shown.fence == lease.fence
            assert await other.lock(NAME).try_acquire() is None
            assert await lease.release() is True
            assert await (await other.lock(NAME, ttl=TTL).acquire()).release()

        run(flavor, scenario)


def test_a_client_of_a_service_counts_on_no_longer_than_the_session(
    flavor: str, server: ZooKeeper
) -> None:
    """The engine cuts a longer ttl, when it grants and when it renews."""
    with Services(f"{server.fresh_url()}?session=60", count=1) as nodes:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(nodes.url)
            longest = client.traits.ttl_max or 0.0
            assert longest == pytest.approx(45)
            lease = await client.lock(NAME, ttl=600).acquire()
            assert lease.remaining() < longest
            await lease.renew()
            assert lease.remaining() < longest
            assert lease.ttl == longest
            assert await lease.release() is True

        run(flavor, scenario)


def test_clients_of_a_service_are_told_what_its_session_outlasts(
    flavor: str, server: ZooKeeper
) -> None:
    with Services(server.fresh_url(), count=1) as nodes:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(nodes.url)
            with pytest.raises(Unsupported, match=r"15 s at most, and min_hold=16 .*session="):
                await client.lock(NAME, min_hold=16).acquire()
            assert client.traits.ttl_max == pytest.approx(15)
            assert await client.holders(NAME) == []

        run(flavor, scenario)
