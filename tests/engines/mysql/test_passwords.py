"""MySQL's own kind of password: what the drivers need for it is said when it is missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fencelock
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.mariadb import PASSWORD
from tests.servers.mysql import MySQL, mysql
from tests.servers.shared import shared


@pytest.fixture
def newcomer(table: str) -> Iterator[tuple[MySQL, str]]:
    """An account that the server has not seen yet: it asks for the whole password the first time.

    After that it remembers enough to go without, until it restarts.
    """
    server, user = shared(mysql), f"new_{table}"
    server.ask(f"CREATE USER '{user}'@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'")
    server.ask(f"GRANT ALL ON locks.* TO '{user}'@'%'")
    yield server, user
    server.ask(f"DROP USER '{user}'@'%'")


@pytest.mark.parametrize("way", FLAVORS)
def test_a_new_account_is_let_in(way: str, newcomer: tuple[MySQL, str], table: str) -> None:
    server, user = newcomer

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url().replace("tester:", f"{user}:"), table=table)
        async with client.lock("seat") as lease:
            assert lease.fence > 0

    run(way, scenario)


@pytest.mark.parametrize("way", FLAVORS)
def test_a_package_that_is_missing_for_it_is_named(
    way: str, newcomer: tuple[MySQL, str], table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pymysql._auth._have_cryptography", False)
    server, user = newcomer

    async def scenario(lab: Lab) -> None:
        with pytest.raises(fencelock.Misconfigured, match=r"tls=yes.*pip install"):
            url = server.url().replace("tester:", f"{user}:")
            _ = await lab.connect(url, table=table, tls="no")  # with it, it would do without

    run(way, scenario)
