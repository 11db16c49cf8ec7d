"""An emulator for the tests of this folder, which keep apart by their databases, and a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.flavors import FLAVORS
from tests.servers.proxy import Proxy
from tests.servers.shared import shared
from tests.servers.spanner import Spanner


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def server() -> Spanner:
    return shared(Spanner)


@pytest.fixture
def own_server() -> Iterator[Spanner]:
    """One that a test may freeze and kill."""
    with Spanner() as server:
        yield server


@pytest.fixture
def database(server: Spanner) -> str:
    """The name of a database that has no table yet."""
    return server.fresh_database()


@pytest.fixture
def locks_url(server: Spanner, database: str) -> str:
    """The URL of that database."""
    return server.url(database)


@pytest.fixture
def proxy(server: Spanner) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy
