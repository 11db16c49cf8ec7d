"""A server for the tests of this folder, which keep apart by their names, and one's own front."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.engines.dynamodb.front import Front, front
from tests.faults.flavors import FLAVORS
from tests.servers.dynalite import Dynalite
from tests.servers.shared import shared

_number = count()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def server() -> Dynalite:
    return shared(Dynalite)


@pytest.fixture
def table() -> str:
    """The name of a table that is not there yet."""
    return f"table-of-{next(_number)}"


@pytest.fixture
def locks_url(server: Dynalite, table: str) -> str:
    """The URL of that table."""
    return f"dynamodb://any:any@{server.address}/{table}"


@pytest.fixture
def lossy(server: Dynalite) -> Iterator[Front]:
    """A front before the server."""
    with front(server.address) as state:
        yield state
