"""A cluster whose members die, hang or are cut off, while locks are held and waited for."""

from __future__ import annotations

import pytest

from fencelock import FencelockError, LeaseLost, OutcomeUnknown, Unavailable, aio
from fencelock.worlds import clock
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import Lab, run
from tests.servers.etcd import Etcd, EtcdCluster

LONG = 60.0  # seconds: elections on a busy machine, and deadlines that have to pass


def strike(cluster: EtcdCluster, how: str) -> Etcd:
    """Take the leader out, and wait until the others have a new one."""
    leader = cluster.leader()
    if how == "killed":
        leader.kill()
    elif how == "frozen":
        leader.pause()
    else:
        cluster.part(leader)
    cluster.leader(among=cluster.others(leader))
    return leader


async def use(lab: Lab, client: aio.Client, name: str) -> None:
    """Take and leave a lock; a client of little request_timeout may need several tries for that."""
    give_up = clock.now() + LONG
    while True:
        try:
            async with client.lock(name, ttl=20):
                return
        except (Unavailable, OutcomeUnknown):
            if clock.now() > give_up:
                raise
        await lab.let_pass(0.05)


@pytest.mark.parametrize("how", ["killed", "frozen", "parted"])
def test_a_lease_outlives_the_leader(flavor: str, cluster: EtcdCluster, how: str) -> None:
    """H54: held and queued when the leader goes; the holder keeps it, the waiter its place."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, rival = await lab.connect(cluster.url), await lab.connect(cluster.url)
        lease = await client.lock("seat", ttl=20, on_lost=told.append).acquire()
        first = lab.start(rival.lock("seat", ttl=20).acquire(timeout=LONG))
        await lab.until_queued(client, "seat", 1)
        second = lab.start(client.lock("seat", ttl=20).acquire(timeout=LONG))
        await lab.until_queued(client, "seat", 2)
        strike(cluster, how)
        await until_renewed(lab, lease)
        assert not told
        assert not first.done()
        assert await lease.release() is True
        third = await first.result(LONG)
        assert third.fence > lease.fence
        assert not second.done()
        assert await third.release() is True
        last = await second.result(LONG)
        assert last.fence > third.fence
        assert await last.release() is True

    run(flavor, scenario)


def test_the_minority_grants_nothing_and_says_so_in_time(flavor: str, cluster: EtcdCluster) -> None:
    """H54: who reaches only the member that was cut off gets an error, and leaves nothing."""

    async def scenario(lab: Lab) -> None:
        leader = cluster.leader()
        cut_off = await lab.connect(leader.url, request_timeout=1)
        await use(lab, cut_off, "warm")
        cluster.part(leader)  # even if another leads by now
        cluster.leader(among=cluster.others(leader))
        for timeout in (0, 3):
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await cut_off.lock("seat", ttl=20).acquire(timeout=timeout)
        with pytest.raises(FencelockError):
            await cut_off.holders("seat")
        rest = await lab.connect(cluster.url)
        lease = await rest.lock("seat", ttl=20).acquire(timeout=LONG)
        cluster.heal()
        await until_renewed(lab, lease)
        state = await rest.inspect("seat")
        assert [held.fence for held in state.holders] == [lease.fence]
        assert state.waiters == ()
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_holder_that_was_cut_off_knows_it_before_another_is_granted(
    flavor: str, cluster: EtcdCluster
) -> None:
    """H47, H54: even if the old leader, which does not know better, still extends its lease."""

    async def scenario(lab: Lab) -> None:
        leader = cluster.leader()
        others = ",".join(node.address for node in cluster.others(leader))
        client = await lab.connect(leader.url, request_timeout=1)
        rival = await lab.connect(f"etcd://{others}")
        lease = await client.lock("seat", ttl=3).acquire()
        taking = lab.start(take(rival, lease))
        await lab.until_queued(client, "seat", 1)
        cluster.part(leader)
        held_at_that_moment, fence = await taking.result(LONG)
        assert not held_at_that_moment
        assert fence > lease.fence
        assert lease.lost.is_set()
        with pytest.raises(LeaseLost):
            lease.check()

    async def take(rival: aio.Client, lease: aio.Lease) -> tuple[bool, int]:
        async with await rival.lock("seat", ttl=3).acquire(timeout=LONG) as mine:
            return bool(lease), mine.fence

    run(flavor, scenario)


def test_a_lease_outlives_a_restart_of_all(flavor: str, cluster: EtcdCluster) -> None:
    """Grants are durable: killed all at once and started again, the members know the holder."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, rival = await lab.connect(cluster.url), await lab.connect(cluster.url)
        lease = await client.lock("seat", ttl=LONG, on_lost=told.append).acquire()
        waiting = lab.start(rival.lock("seat", ttl=LONG).acquire(timeout=LONG))
        await lab.until_queued(client, "seat", 1)
        for node in cluster.nodes:
            node.kill()
        cluster.start_again()
        before = clock.now() + lease.remaining()
        await lease.renew()
        assert lease.remaining() + clock.now() > before
        assert not told
        assert await lease.release() is True
        after = await waiting.result(LONG)
        assert after.fence > lease.fence
        assert await after.release() is True

    run(flavor, scenario)
