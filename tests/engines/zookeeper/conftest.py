"""Servers for the tests of the ZooKeeper engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.faults.flavors import FLAVORS
from tests.servers.proxy import Proxy
from tests.servers.shared import shared
from tests.servers.zookeeper import Ensemble, ZooKeeper


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> ZooKeeper:
    """A server that nobody breaks."""
    return shared(ZooKeeper)


@pytest.fixture
def own_server() -> Iterator[ZooKeeper]:
    """A server that the test may break."""
    with ZooKeeper() as running:
        yield running


@pytest.fixture
def proxy(server: ZooKeeper) -> Iterator[Proxy]:
    """A way to the server that the test may break."""
    with Proxy(server.port) as running:
        yield running


@pytest.fixture(scope="module")
def standing_ensemble() -> Iterator[Ensemble]:
    with Ensemble() as running:
        yield running


@pytest.fixture
def ensemble(standing_ensemble: Ensemble) -> Iterator[Ensemble]:
    """Three servers that the test may break: they are mended for the next one."""
    yield standing_ensemble
    standing_ensemble.mend()


@pytest.fixture
def kazoo(server: ZooKeeper) -> Iterator[KazooClient]:
    """A client of the other library, at the top of the tree."""
    client = KazooClient(hosts=server.address)
    client.start()
    yield client
    client.stop()
    client.close()
