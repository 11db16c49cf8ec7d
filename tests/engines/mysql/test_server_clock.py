"""The wall clock of the server steps, by which it ends leases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.mysql.conftest import KINDS
from tests.engines.server_clock import a_step_back, a_step_forward, misled
from tests.faults.flavors import run
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
