"""An object store, and a place in it that is nobody else's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guards.objects.desks import S3Desk, close_bridges
from tests.servers.seaweed import Seaweed
from tests.servers.shared import shared


@pytest.fixture(scope="module", autouse=True)
def bridges() -> Iterator[None]:
    yield
    close_bridges()


@pytest.fixture
def server() -> Seaweed:
    return shared(Seaweed)


@pytest.fixture
def desk(server: Seaweed) -> S3Desk:
    return S3Desk(server.url, server.fresh_prefix())
