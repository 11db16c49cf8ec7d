"""An emulator for the tests of this folder, which keep apart by their collections, and a front."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.engines.firestore.front import Front, front
from tests.faults.flavors import FLAVORS
from tests.servers.firestore import Firestore
from tests.servers.shared import shared

_number = count()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def server() -> Firestore:
    """An emulator that tests share: nobody stops it."""
    return shared(Firestore)


@pytest.fixture
def own_server() -> Iterator[Firestore]:
    """An emulator of one's own, to be broken."""
    with Firestore() as server:
        yield server


@pytest.fixture
def collection() -> str:
    """The name of a collection that no other test uses."""
    return f"collection-{next(_number)}"


@pytest.fixture
def locks_url(server: Firestore, collection: str) -> str:
    """The URL of that collection."""
    return server.url_of(collection)


@pytest.fixture
def lossy(server: Firestore) -> Iterator[Front]:
    """A front before the emulator."""
    with front(server.address) as state:
        yield state
