"""The wall clock of the server steps: sessions end by another one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from tests.engines.server_clock import HOUR, misled, no_step_matters
from tests.faults.flavors import run
from tests.servers.clock import Clock
from tests.servers.zookeeper import ZooKeeper


@pytest.fixture(scope="module")
def standing() -> Iterator[tuple[ZooKeeper, Clock]]:
    with misled(ZooKeeper()) as running:
        yield running


def test_a_step_of_the_servers_clock_changes_nothing(
    flavor: str, standing: tuple[ZooKeeper, Clock]
) -> None:
    """H34: the session goes on, nobody else gets in, and fences grow."""
    server, clock = standing
    run(flavor, lambda lab: no_step_matters(lab, server.fresh_url(), clock))
    assert abs(_ahead(server) + HOUR) < 60, "the server has not noticed that its clock stepped"
    clock.set()


def _ahead(server: ZooKeeper) -> float:
    """By how much the server's wall clock is wrong, as a new node of it tells."""
    client = KazooClient(server.address)
    client.start()
    try:
        path = client.create("/when", ephemeral=True, sequence=True)
        found = client.exists(path)
        assert found is not None
        return float(found.created) - time.time()
    finally:
        client.stop()
        client.close()
