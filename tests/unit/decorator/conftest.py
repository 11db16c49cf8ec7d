"""A client of either flavor, with locks of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fencelock


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[fencelock.Client]:
    with fencelock.connect(address(request)) as client:
        yield client


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return address(request)


def address(request: pytest.FixtureRequest) -> str:
    """Locks of its own for every test."""
    return f"memory://{abs(hash(request.node.nodeid))}"
