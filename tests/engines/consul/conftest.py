"""Fixtures of the Consul tests: a shared server, one's own to be broken, a proxy before it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.flavors import FLAVORS
from tests.servers.consul import Consul, ConsulCluster
from tests.servers.proxy import Proxy
from tests.servers.shared import shared


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def consul() -> Consul:
    """A server that tests share: nobody stops it."""
    return shared(Consul)


@pytest.fixture
def own_consul() -> Iterator[Consul]:
    """A server of one's own, to be broken."""
    with Consul() as server:
        yield server


@pytest.fixture
def cluster() -> Iterator[ConsulCluster]:
    """Three servers of one's own, to be broken."""
    with ConsulCluster() as cluster:
        yield cluster


@pytest.fixture
def proxy(consul: Consul) -> Iterator[Proxy]:
    """A network before the shared server."""
    with Proxy(consul.port) as proxy:
        yield proxy
