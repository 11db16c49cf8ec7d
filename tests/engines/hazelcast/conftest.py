"""Fixtures of the Hazelcast tests: shared members, three processes to be broken, a raw client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.hazelcast.raw import Raw
from tests.faults.flavors import FLAVORS
from tests.servers.hazelcast import Hazelcast, HazelcastCluster
from tests.servers.shared import shared


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def hazelcast() -> Hazelcast:
    """Three members in one process that tests share: nobody stops them."""
    return shared(Hazelcast)


@pytest.fixture
def raw(hazelcast: Hazelcast) -> Iterator[Raw]:
    """Hazelcast's own client, at the shared members."""
    with Raw(hazelcast.ports) as raw:
        warm_up(raw)
        yield raw


@pytest.fixture
def cluster() -> Iterator[HazelcastCluster]:
    """Three members of one's own, each a process, to be broken."""
    with HazelcastCluster(session_ttl=350) as cluster:
        with Raw([node.port for node in cluster.nodes]) as raw:
            warm_up(raw)
        yield cluster


def warm_up(raw: Raw) -> None:
    """Begin the first session of a cluster, which takes seconds on a busy machine."""
    lock = raw.lock("warm")
    lock.lock()
    lock.unlock()
