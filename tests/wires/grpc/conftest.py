"""Fixtures of the gRPC tests: a server that no test stops, and the flavors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.flavors import FLAVORS
from tests.wires.grpc.server import GrpcServer


@pytest.fixture(scope="session")
def shared_server() -> Iterator[GrpcServer]:
    with GrpcServer() as server:
        yield server


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)
