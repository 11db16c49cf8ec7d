"""Both flavors, and a server that answers what it is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.http.answers import Stub, stub
from tests.faults.flavors import FLAVORS


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def peer() -> Iterator[Stub]:
    with stub() as found:
        yield found
