"""Any name is one lock, in MySQL and MariaDB alike, and no two names share one."""

from __future__ import annotations

import pytest

from fencelock.engines.mysql.names import lock_name
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer

MYSQL_MAX = 64


def test_no_two_of_many_names_share_a_lock() -> None:
    """H65: neither 140 names nor 100,000 collide."""
    names = [f"lock{number}" for number in range(50_000)]
    names += [f"Lock {number}" for number in range(50_000)]
    assert len({lock_name(name) for name in names}) == 100_000


def test_a_plain_name_is_the_name_for_get_lock() -> None:
    assert lock_name("report:2026-11_weekly") == "report:2026-11_weekly"
    assert lock_name("x" * MYSQL_MAX) == "x" * MYSQL_MAX


@pytest.mark.parametrize(
    "name",
    [
        "Report",
        "REPORT",
        "x" * 65,
        "x" * 193,
        "two words",
        "ends in a space ",
        "ünïcödé",
        "fencelock#" + "0" * 48,
        "fencelock:session:1",
    ],
)
def test_a_name_that_the_two_take_differently_is_hashed(name: str) -> None:
    """H70: MySQL ends at 64 characters and ignores case, MariaDB ends at 192 and does not."""
    hashed = lock_name(name)
    assert hashed.startswith("fencelock#")
    assert hashed == hashed.lower()
    assert len(hashed) <= MYSQL_MAX
    assert lock_name(hashed) != hashed  # whoever locks the hash itself locks another name


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_names_that_look_alike_are_locked_at_once(
    flavor: str, mode: str, server: SqlServer, table: str
) -> None:
    """H70: case, 193 characters, spaces at the end."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode=mode, table=table)
        names = ["a", "A", "á", "a ", "x" * 64, "x" * 65, "x" * 192, "x" * 193, "X" * 193]
        leases = [await client.lock(name).try_acquire() for name in names]
        assert None not in leases
        for name in names:
            assert await client.lock(name).try_acquire() is None
        for lease in leases:
            assert lease is not None
            assert await lease.release() is True

    run(flavor, scenario)
