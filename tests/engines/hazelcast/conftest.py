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
        warm = raw.lock("warm")  # the first session of a cluster takes seconds on a busy machine
        warm.lock()
        warm.unlock()
        yield raw


@pytest.fixture
def cluster() -> Iterator[HazelcastCluster]:
    """Three members of one's own, each a process, to be broken."""
    with HazelcastCluster() as cluster:
        yield cluster
