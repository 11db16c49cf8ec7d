"""What the tests of this engine share: tables of their own in one server, in either flavor.

A test that asks for ``server`` or ``own`` runs over MariaDB and over MySQL, which differ in more
than their names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.faults.flavors import FLAVORS
from tests.servers.mariadb import MariaDB, SqlServer, mariadb
from tests.servers.mysql import FAST, MySQL, mysql
from tests.servers.shared import shared

_number = itertools.count()

Set = Callable[..., AbstractContextManager[None]]


KINDS: dict[str, type[SqlServer]] = {"mariadb": MariaDB, "mysql": MySQL}
CHOICES = {"kind": KINDS, "flavor": FLAVORS}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both kinds of server, and both flavors."""
    asked = [name for name in ("kind", "flavor") if name in metafunc.fixturenames]
    cases = list(itertools.product(*(CHOICES[name] for name in asked)))
    if asked:
        metafunc.parametrize(asked, cases, ids=map("-".join, cases), indirect=True)


@pytest.fixture
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> type[SqlServer]:
    """Whose server it is."""
    return KINDS[str(request.param)]


@pytest.fixture
def server(kind: type[SqlServer]) -> SqlServer:
    return shared(mariadb) if kind is MariaDB else shared(mysql)


def fragile_mariadb() -> MariaDB:
    return MariaDB()


def fragile_mysql() -> MySQL:
    return MySQL(FAST)


@pytest.fixture
def own(kind: type[SqlServer]) -> SqlServer:
    """A server that a test may kill, freeze and set as it likes, if it mends that at its end."""
    found: SqlServer = shared(fragile_mariadb) if kind is MariaDB else shared(fragile_mysql)
    if found.process is None or found.process.poll() is not None:  # a test has failed half-way
        found.start()
    return found


@pytest.fixture
def setting(own: SqlServer) -> Set:
    """Changes variables of the server for the time of a block."""

    @contextmanager
    def changed(**values: int) -> Iterator[None]:
        before = {name: own.ask(f"SELECT @@GLOBAL.{name}")[0][0] for name in values}
        try:
            for name, value in values.items():
                own.ask(f"SET GLOBAL {name}={value}")
            yield
        finally:
            for name, value in before.items():
                own.ask(f"SET GLOBAL {name}={value}")

    return changed


@pytest.fixture
def table() -> str:
    """The prefix of tables that no other test uses."""
    return f"mine_{next(_number)}"
