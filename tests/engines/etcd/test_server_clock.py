"""The wall clock of the server steps. etcd 3.4 ends leases by two clocks, and by the later one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from urllib.request import urlopen

import pytest

from tests.engines.server_clock import HOUR, no_step_matters
from tests.faults.flavors import Lab, run
from tests.servers.etcd import Etcd
from tests.servers.goclock import GoClock
from tests.servers.server import until

LATE = 60.0


@pytest.fixture(scope="module")
def standing() -> Iterator[tuple[Etcd, GoClock]]:
    server = Etcd()
    folder = server.folder / "clock"
    folder.mkdir()
    clock = GoClock(folder)
    server.environment |= clock.environment
    with server:
        clock.step(HOUR)
        if abs(_ahead(server) - HOUR) > HOUR / 2:
            pytest.skip("the clock of this etcd cannot be stepped: it has no C library")
        clock.set()
        yield server, clock


def test_a_step_of_the_servers_clock_changes_nothing(
    flavor: str, standing: tuple[Etcd, GoClock]
) -> None:
    """H34: the lease goes on, nobody else gets in, and fences grow."""
    server, clock = standing
    run(flavor, lambda lab: no_step_matters(lab, server.url, clock))
    assert abs(_ahead(server) + HOUR) < 60, "the server has not noticed that its clock stepped"
    clock.set()


def test_what_a_dead_client_held_is_free_when_the_clock_has_gone_on(
    flavor: str, standing: tuple[Etcd, GoClock]
) -> None:
    """H34: etcd 3.4 may keep a lease for as long as its clock was set back, and no longer."""
    server, clock = standing

    async def scenario(lab: Lab) -> None:
        other = await lab.connect(server.url)
        granted = server.ctl("lease", "grant", "5").stdout.split()[1]
        assert server.ctl("put", f"orphan/{granted}", "", "--lease", granted).returncode == 0
        clock.step(-HOUR)
        waiter = lab.start(other.lock("orphan", ttl=30, timeout=LATE).acquire())
        await lab.until(lambda: waiter.done() or len(server.keys("orphan/")) > 1, "a waiter")
        clock.step(HOUR)
        lease = await waiter.result(within=LATE)
        assert await lease.release() is True

    run(flavor, scenario)
    until(lambda: not server.keys("orphan/"), "no key of it")


def _ahead(server: Etcd) -> float:
    """By how much the server's wall clock is wrong, as it tells every client."""
    with urlopen(f"http://{server.address}/health", timeout=LATE) as answer:
        return parsedate_to_datetime(answer.headers["Date"]).timestamp() - time.time()
