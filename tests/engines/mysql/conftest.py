"""What the tests of this engine share: tables of their own in one server, in either flavor."""

from __future__ import annotations

import itertools

import pytest

from tests.faults.flavors import FLAVORS
from tests.servers.mariadb import MariaDB, mariadb
from tests.servers.shared import shared

_number = itertools.count()


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> MariaDB:
    return shared(mariadb)


@pytest.fixture
def table() -> str:
    """The prefix of tables that no other test uses."""
    return f"mine_{next(_number)}"
