"""Go's ``concurrency.Mutex`` of etcd's own client and ours stand in one queue."""

from __future__ import annotations

import itertools

import pytest

import fencelock
from fencelock import aio
from tests.faults.flavors import FLAVORS, SOON, Job, Lab, run
from tests.languages.conftest import Start
from tests.languages.programs import ALL, TURNS, TURNS_S, WORKERS, Ours, go, take_turns
from tests.languages.register import Register, check_exclusion, check_fences
from tests.servers.etcd import Etcd
from tests.servers.shared import shared

pytestmark = pytest.mark.timeout(2 * TURNS_S)
_number = itertools.count()


@pytest.fixture
def etcd() -> Etcd:
    return shared(Etcd)


@pytest.fixture
def name() -> str:
    return f"/locks/{next(_number)}/seat"


def queued(etcd: Etcd, name: str) -> int:
    """How many stand under a name, the holder included."""
    return len(etcd.keys(f"{name}/"))


def test_one_at_a_time_in_the_order_of_arrival_over_thousands_of_turns(
    etcd: Etcd, name: str, start: Start, register: Register
) -> None:
    """The fence is the create revision, by which the queue is ordered: so of both it grows."""
    ours = Ours(etcd.url)
    theirs = start(go("etcd", "turns", etcd.address, name, register.folder, WORKERS, TURNS))
    take_turns(register, ours, theirs, lambda: ours.record(register, name))
    check_exclusion(register, ALL)
    check_fences(register.history)
    assert queued(etcd, name) == 0


def test_go_keeps_us_out_and_hands_over(etcd: Etcd, name: str, start: Start) -> None:
    theirs = start(go("etcd", "hold", etcd.address, name))
    (fence,) = theirs.hear("held")
    with fencelock.connect(etcd.url) as client:
        assert client.lock(name).try_acquire() is None
        (holding,) = client.holders(name)
        assert holding.fence == int(fence)
        theirs.end()
        with client.lock(name, ttl=60, timeout=SOON) as lease:
            assert lease.fence > int(fence)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_mixed_queue_is_served_in_the_order_of_arrival(
    flavor: str, etcd: Etcd, name: str, start: Start
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        holder = await client.lock(name, ttl=60).acquire()
        jobs: list[Job[aio.Lease]] = []
        theirs = []
        for number in range(3):
            jobs.append(lab.start(client.lock(name, ttl=60, timeout=SOON).acquire()))
            await lab.until(lambda: queued(etcd, name) == 2 + 2 * number, "ours in it")  # noqa: B023
            theirs.append(start(go("etcd", "hold", etcd.address, name)))
            await lab.until(lambda: queued(etcd, name) == 3 + 2 * number, "theirs in it")  # noqa: B023
        last = holder.fence
        assert await holder.release() is True
        for number in range(3):
            lease = await jobs[number].result()
            assert lease.fence > last
            assert not any(job.done() for job in jobs[number + 1 :])
            assert await lease.release() is True
            (fence,) = theirs[number].hear("held")
            last = int(fence)
            assert last > lease.fence
            theirs[number].end()

    run(flavor, scenario)
