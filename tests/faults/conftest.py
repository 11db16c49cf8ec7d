"""Fixtures of the fault tests: a flavor, an engine, a folder for the file, a crew of processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock.testing.faulty import Faults
from tests.faults.crew import Crew
from tests.faults.flavors import FLAVORS


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the embedded engine keeps its locks in this test."""
    return tmp_path / "locks.db"


@pytest.fixture
def file_url(database: Path) -> str:
    """The embedded engine: for everything that needs more than one process."""
    return f"sqlite:///{database}"


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each engine that serves one process."""
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    return f"sqlite:///{tmp_path / 'locks.db'}"


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Other processes; none is left when the test ends."""
    crew = Crew()
    yield crew
    crew.clear()
