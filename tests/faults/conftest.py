"""Fixtures of the fault tests: a flavor, an engine, a folder for the file, a crew of processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock.testing.faulty import Faults
from tests.faults import engines
from tests.faults.crew import Crew
from tests.faults.flavors import FLAVORS
from tests.faults.held import WHATS, What, whats
from tests.faults.network import Network, through_a_proxy


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*promises): leave out the engines that do not promise this much"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over every engine that its fixture and its mark allow."""
    marked = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
    for fixture, needs in engines.FIXTURES.items():
        if fixture in metafunc.fixturenames:
            file = metafunc.definition.path.name
            over = engines.suitable(needs | marked, file)
            if "what" in metafunc.fixturenames:
                pairs = [(engine, what) for engine in over for what in whats(engine)]
                metafunc.parametrize((fixture, "what"), pairs, indirect=True)
            else:
                metafunc.parametrize(fixture, over, indirect=True)


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each engine."""
    return engines.fresh(request.param, tmp_path)


@pytest.fixture
def what(request: pytest.FixtureRequest) -> What:
    """What is locked: a mutex, and where the engine has them, shares."""
    return WHATS[request.param]


@pytest.fixture
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each engine that several processes can meet in."""
    return engines.fresh(request.param, tmp_path)


@pytest.fixture
def server_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each engine that is a server."""
    return engines.fresh(request.param, tmp_path)


@pytest.fixture
def network(server_url: str) -> Iterator[Network]:
    """Each engine that is a server, with a proxy before it."""
    with through_a_proxy(server_url) as network:
        yield network


@pytest.fixture(params=["memory", "sqlite"])
def client_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For hazards that never reach the engine: one that answers at once, and one that works."""
    return engines.fresh(request.param, tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the embedded engine keeps its locks in this test."""
    return tmp_path / "locks.db"


@pytest.fixture
def file_url(database: Path) -> str:
    """The embedded engine: for everything about its file."""
    return f"sqlite:///{database}"


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Other processes; none is left when the test ends."""
    crew = Crew()
    yield crew
    crew.clear()
