"""A registry that counts while a test runs, in both flavors, over real engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock import observe
from fencelock.observe import Event
from fencelock.telemetry import Registry
from fencelock.testing.faulty import Faults
from tests.faults import engines
from tests.faults.flavors import FLAVORS

ENGINES = ("memory", "sqlite", "redis")


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return engines.fresh(request.param, tmp_path)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    unsubscribe = observe.subscribe(seen.append, calls=True)
    yield seen
    unsubscribe()
