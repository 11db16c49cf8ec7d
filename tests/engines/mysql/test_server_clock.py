"""The wall clock of the server steps, by which it ends leases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.mysql.conftest import KINDS
from tests.engines.server_clock import HOUR, a_step_back, a_step_forward, misled
from tests.faults.flavors import Lab, run
from tests.servers.clock import Clock
from tests.servers.mariadb import SqlServer


@pytest.fixture(scope="module", params=KINDS)
def standing(request: pytest.FixtureRequest) -> Iterator[tuple[SqlServer, Clock]]:
    with misled(KINDS[request.param]()) as running:
        yield running


@pytest.fixture
def clock(standing: tuple[SqlServer, Clock]) -> Iterator[Clock]:
    """The clock of the server, right at the beginning of each test."""
    yield standing[1]
    standing[1].set()


@pytest.fixture
def stepped_url(standing: tuple[SqlServer, Clock], table: str) -> str:
    server, _ = standing
    return f"{server.url()}?table={table}"


def test_a_step_forward_ends_the_lease_and_the_holder_is_told(
    flavor: str, stepped_url: str, clock: Clock
) -> None:
    """H34: another has the lock, with a higher fence, and the first holder hears of its loss."""
    run(flavor, lambda lab: a_step_forward(lab, stepped_url, clock))


def test_a_step_back_keeps_the_holder_and_its_release_frees(
    flavor: str, stepped_url: str, clock: Clock
) -> None:
    """H34: nobody gets in, and the next fence is higher although the clock shows less."""
    run(flavor, lambda lab: a_step_back(lab, stepped_url, clock))


def test_fences_of_one_advisory_lock_grow_whatever_database_and_table_its_clients_name(
    flavor: str, standing: tuple[SqlServer, Clock], clock: Clock, table: str
) -> None:
    """H86: GET_LOCK is the whole server's: those whom it keeps apart draw from one counter."""
    server, _ = standing
    server.ask("CREATE DATABASE IF NOT EXISTS elsewhere")
    server.ask("GRANT ALL ON elsewhere.* TO 'tester'@'%'")
    away = server.url().replace("/locks", "/elsewhere")

    async def scenario(lab: Lab) -> None:
        clients = [
            await lab.connect(server.url(), mode="advisory"),
            await lab.connect(server.url(), mode="advisory", table=table),
            await lab.connect(away, mode="advisory"),
        ]
        held = await clients[0].lock(table, ttl=30).acquire()
        assert [await other.lock(table).try_acquire() for other in clients[1:]] == [None, None]
        fences = [held.fence]
        await held.release()
        for client, step in zip(clients * 3, [HOUR, -HOUR, 0.0] * 3, strict=True):
            clock.step(step)
            async with client.lock(table, ttl=30, timeout=10) as lease:
                fences.append(lease.fence)
        assert fences == sorted(set(fences))

    run(flavor, scenario)
