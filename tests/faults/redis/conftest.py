"""A Redis server of the test's own, to be stopped, filled and misled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.redis import Redis


@pytest.fixture
def server() -> Iterator[Redis]:
    """One that keeps nothing on disk."""
    with Redis() as server:
        yield server
