"""Servers for the tests of the PostgreSQL engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.faults.crew import Crew
from tests.faults.flavors import FLAVORS
from tests.servers.postgresql import Postgresql
from tests.servers.proxy import Proxy
from tests.servers.shared import shared

_number = itertools.count()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Postgresql:
    """A server that nobody breaks."""
    return shared(Postgresql)


@pytest.fixture
def own_server() -> Iterator[Postgresql]:
    """A server that the test may break."""
    with Postgresql() as running:
        yield running


@pytest.fixture
def table() -> str:
    """Tables that nobody else uses."""
    return f"test_{next(_number)}"


@pytest.fixture
def proxy(server: Postgresql) -> Iterator[Proxy]:
    """A way to the server that the test may break."""
    with Proxy(server.port) as running:
        yield running


@pytest.fixture
def link(server: Postgresql) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection, in autocommit: somebody else who uses the database."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        yield connection


@pytest.fixture
def crew() -> Iterator[Crew]:
    """Other processes; none is left when the test ends."""
    crew = Crew()
    yield crew
    crew.clear()
