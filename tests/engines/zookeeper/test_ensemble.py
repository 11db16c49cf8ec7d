"""Three servers, one of which dies, freezes or is cut off: the lock stays whole.

Each fault strikes while one client holds the lock and another waits for it. The lease is kept, the
waiter keeps its place, and the next holder's fence is higher.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from fencelock import OutcomeUnknown, Unavailable, aio
from fencelock.worlds import clock
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import Lab, run
from tests.servers.server import until
from tests.servers.zookeeper import Ensemble, ZooKeeper

SESSION = 60.0  # a lease of 45 s: more than an election on a busy machine takes
LATE = 60.0

FAULTS = ["killed", "frozen", "partitioned"]


def strike(ensemble: Ensemble, fault: str, victim: ZooKeeper) -> None:
    """Take the leader out, and wait until another leads: what is asked while they vote may fail."""
    if fault == "killed":
        victim.kill()
    elif fault == "frozen":
        victim.pause()
    else:
        ensemble.isolate(victim)
    until(lambda: ensemble.led_without(victim), "the others to have a leader")


@pytest.mark.parametrize("fault", FAULTS)
def test_the_loss_of_the_leader_costs_neither_lease_nor_place(
    flavor: str, fault: str, ensemble: Ensemble
) -> None:
    """H54: the majority goes on; the lease outlasts the election."""
    url = ensemble.url()

    async def scenario(lab: Lab) -> None:
        leader = ensemble.leader
        holder, waiter = [await lab.connect(url, session=SESSION) for _ in range(2)]
        lease = await holder.lock("seat", ttl=30).acquire()
        waiting = lab.start(waiter.lock("seat", ttl=30, timeout=LATE).acquire())
        await lab.until_queued(holder, "seat", 1)
        await until_waiting(lab, waiter)
        strike(ensemble, fault, leader)
        await until_renewed(lab, lease)
        assert not waiting.done(), await waiting.result()
        assert await lease.release() is True
        other = await waiting.result(within=LATE)
        assert other.fence > lease.fence
        assert await other.release() is True

    run(flavor, scenario)


def test_the_minority_never_grants_and_says_so_in_time(flavor: str, ensemble: Ensemble) -> None:
    url = ensemble.url()

    async def scenario(lab: Lab) -> None:
        lonely, *others = ensemble.followers
        outside = await lab.connect(alone(url, lonely), session=2.0)
        inside = await lab.connect(alone(url, *others, ensemble.leader), session=SESSION)
        ensemble.isolate(lonely)
        for _ in range(5):
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await outside.lock("seat").try_acquire()
        async with inside.lock("seat", timeout=LATE) as lease:
            lease.check()
        ensemble.heal()
        until(ensemble.settled, "the ensemble to be whole again")
        await until_served(lab, outside)
        async with outside.lock("seat", timeout=LATE, ttl=30) as after:
            assert after.fence > lease.fence

    run(flavor, scenario)


def test_a_holder_on_the_minority_side_stops_before_another_begins(
    flavor: str, ensemble: Ensemble
) -> None:
    """H51: a member that has lost the others goes on answering reads; they prove nothing."""
    url = ensemble.url()

    async def scenario(lab: Lab) -> None:
        lonely, *others = ensemble.followers
        outside = await lab.connect(alone(url, lonely), session=2.0)
        inside = await lab.connect(alone(url, *others, ensemble.leader), session=SESSION)
        lease = await outside.lock("seat").acquire()
        waiting = lab.start(inside.lock("seat", ttl=30, timeout=LATE).acquire())
        await lab.until_queued(inside, "seat", 1)
        ensemble.isolate(lonely, silently=True)
        other = await waiting.result(within=LATE)
        assert not lease, "two leases on one name were true at once"
        assert other.fence > lease.fence
        ensemble.heal()
        until(ensemble.settled, "the ensemble to be whole again")
        assert await lease.release() is False
        assert await other.release() is True

    run(flavor, scenario)


def test_an_ensemble_that_restarts_keeps_holder_and_queue(flavor: str, ensemble: Ensemble) -> None:
    url = ensemble.url()

    async def scenario(lab: Lab) -> None:
        holder, waiter = [await lab.connect(url, session=30.0) for _ in range(2)]
        lease = await holder.lock("seat", ttl=30).acquire()
        waiting = lab.start(waiter.lock("seat", ttl=30, timeout=LATE).acquire())
        await lab.until_queued(holder, "seat", 1)
        await until_waiting(lab, waiter)
        for member in ensemble.members:
            member.kill()
        for member in ensemble.members:
            member.start()
        await until_renewed(lab, lease)
        assert not waiting.done()
        assert await lease.release() is True
        other = await waiting.result(within=LATE)
        assert other.fence > lease.fence
        await other.release()

    run(flavor, scenario)


WAITER = """
import sys, fencelock
client = fencelock.connect(sys.argv[1], session=1.0)
client.lock("seat", timeout=60).acquire()
"""


def test_the_middle_of_five_waiters_dies_and_the_others_keep_their_order(
    flavor: str, server: ZooKeeper
) -> None:
    """H30."""
    url = server.fresh_url()
    turns: list[int] = []

    async def take_turn(lab: Lab, number: int) -> None:
        client = await lab.connect(url)
        async with client.lock("seat", ttl=30, timeout=LATE):
            turns.append(number)

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(url)
        lease = await holder.lock("seat", ttl=30).acquire()
        victim: subprocess.Popen[bytes] | None = None
        jobs = []
        for number in range(5):
            if number == 2:
                command = [sys.executable, "-c", WAITER, url]
                victim = subprocess.Popen(command)  # noqa: ASYNC220  # quick enough
            else:
                jobs.append(lab.start(take_turn(lab, number)))
            await lab.until_queued(holder, "seat", number + 1)
        assert victim is not None
        victim.kill()
        victim.wait()
        await lab.until_queued(holder, "seat", 4)
        await lab.let_pass(0.2)
        assert turns == [], "who moved up took it for its turn"
        await lease.release()
        for job in jobs:
            await job.result(within=LATE)

    run(flavor, scenario)
    assert turns == [0, 1, 3, 4]


async def until_waiting(lab: Lab, client: aio.Client) -> None:
    """Wait until a client knows that it is queued.

    The servers know earlier; and what breaks before it has heard so is its first try, which fails.
    """
    await lab.until(lambda: client._core.waitlist.signals, "the waiter to wait")


async def until_served(lab: Lab, client: aio.Client) -> None:
    """Wait until a client has found a server that serves."""
    give_up = clock.now() + LATE
    while True:
        try:
            await client.holders("seat")
            return
        except (Unavailable, OutcomeUnknown):
            if clock.now() > give_up:
                raise
        await lab.let_pass(0.05)


def alone(url: str, *members: ZooKeeper) -> str:
    """The same root, reached through these members only."""
    hosts = ",".join(member.address for member in members)
    return f"zookeeper://{hosts}/{url.rpartition('/')[2]}"
