"""Fixtures of the etcd tests: a shared member, clusters of one's own, other processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.faults.crew import Crew
from tests.faults.flavors import FLAVORS
from tests.servers.etcd import Etcd, EtcdCluster
from tests.servers.shared import shared

_number = itertools.count()


@pytest.fixture
def etcd() -> Etcd:
    """A member that tests share: nobody stops it."""
    return shared(Etcd)


@pytest.fixture
def prefix() -> str:
    """What the keys of one test begin with."""
    return f"test-{next(_number)}-"


@pytest.fixture
def cluster() -> Iterator[EtcdCluster]:
    """Three members of one's own, to be broken."""
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Other processes; none is left when the test ends."""
    crew = Crew()
    yield crew
    crew.clear()
