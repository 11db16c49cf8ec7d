"""Three servers of which one is killed, frozen or cut off, while locks are held and waited for."""

from __future__ import annotations

import pytest

from fencelock import FencelockError, LeaseLost, OutcomeUnknown, Unavailable, aio
from fencelock.worlds import clock
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import Lab, run
from tests.servers.consul import ConsulCluster

LONG = 60.0  # seconds: elections on a busy machine, and deadlines that have to pass


def waits(client: aio.Client) -> bool:
    """Whether a blocking query is under way for it."""
    return bool(client._core.engine._watches._queries)  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["killed", "frozen", "parted"])
def test_a_lease_outlives_the_leader(flavor: str, cluster: ConsulCluster, how: str) -> None:
    """H54: held and waited for when the leader goes; the holder keeps it, the waiter gets it."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(cluster.url, request_timeout=2.0)
        rival = await lab.connect(cluster.url, request_timeout=2.0)
        lease = await client.lock("seat", ttl=LONG, on_lost=told.append).acquire()
        waiter = lab.start(rival.lock("seat", ttl=LONG).acquire(timeout=LONG))
        await lab.until(lambda: waits(rival), "a waiter")
        leader = cluster.leader()
        if how == "killed":
            leader.kill()
        elif how == "frozen":
            leader.pause()
        else:
            cluster.part(leader)
        cluster.leader(among=cluster.others(leader))
        await until_renewed(lab, lease)
        assert not told
        assert not waiter.done()
        assert await lease.release() is True
        other = await waiter.result(LONG)
        assert other.fence > lease.fence
        assert await other.release() is True

    run(flavor, scenario)


def test_without_a_majority_nothing_is_granted_and_that_is_said(
    flavor: str, cluster: ConsulCluster
) -> None:
    """H54: the last server answers that nobody leads; a holder knows its end by its own clock."""

    async def scenario(lab: Lab) -> None:
        last, *rest = cluster.nodes
        client = await lab.connect(last.url, request_timeout=1.0)
        lease = await client.lock("seat", ttl=4.0).acquire(timeout=LONG)
        for node in rest:
            node.kill()
        for timeout in (0, 2):
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await client.lock("other", ttl=20).acquire(timeout=timeout)
        with pytest.raises(FencelockError):
            await client.holders("seat")
        assert await lease.lost.wait(LONG)
        with pytest.raises(LeaseLost):
            lease.check()
        for node in rest:
            node.start_unseen()
        again = await until_granted(lab, client, "seat")
        assert again.fence > lease.fence
        assert await again.release() is True

    run(flavor, scenario)


def test_a_holder_at_a_server_that_stands_still_knows_it_before_another_is_granted(
    flavor: str, cluster: ConsulCluster
) -> None:
    """H47, H54: the leader freezes, and another grants the lock when the session has ended."""

    async def scenario(lab: Lab) -> None:
        leader = cluster.leader()
        others = ",".join(node.address for node in cluster.others(leader))
        client = await lab.connect(leader.url, request_timeout=1.0)
        rival = await lab.connect(f"consul://{others}?session_ttl_min=1", request_timeout=2.0)
        lease = await client.lock("seat", ttl=3.0).acquire()

        async def take() -> tuple[bool, int]:
            async with await rival.lock("seat", ttl=20).acquire(timeout=LONG) as mine:
                return bool(lease), mine.fence

        taking = lab.start(take())
        await lab.until(lambda: waits(rival), "a waiter")
        leader.pause()
        still_held, fence = await taking.result(LONG)
        assert not still_held
        assert fence > lease.fence
        leader.resume()
        assert lease.lost.is_set()
        assert await lease.release() is False

    run(flavor, scenario)


def test_the_minority_grants_and_renews_nothing_and_says_so_in_time(
    flavor: str, cluster: ConsulCluster
) -> None:
    """H47, H54: the leader is cut off from the others, and its clients still reach it.

    The majority serves on. A holder at the minority knows its end before another is granted.
    """

    async def scenario(lab: Lab) -> None:
        leader = cluster.leader()
        others = ",".join(node.address for node in cluster.others(leader))
        client = await lab.connect(leader.url, request_timeout=1.0)
        rival = await lab.connect(f"consul://{others}?session_ttl_min=1", request_timeout=2.0)
        old = await client.lock("seat", ttl=3.0).acquire()

        async def take() -> tuple[bool, aio.Lease]:
            mine = await rival.lock("seat", ttl=LONG).acquire(timeout=LONG)
            return bool(old), mine

        taking = lab.start(take())
        await lab.until(lambda: waits(rival), "a waiter")
        cluster.part(leader)
        cluster.leader(among=cluster.others(leader))
        still_held, lease = await taking.result(LONG)
        assert not still_held
        assert lease.fence > old.fence
        with pytest.raises(LeaseLost):
            await old.renew()
        for timeout in (0, 2):
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await client.lock("other", ttl=20).acquire(timeout=timeout)
        with pytest.raises(FencelockError):
            await client.holders("seat")
        async with rival.lock("other", ttl=20) as other:
            other.check()

        cluster.heal()
        await until_renewed(lab, lease)
        again = await until_granted(lab, client, "other")
        assert again.fence > other.fence
        assert [held.fence for held in await client.holders("seat")] == [lease.fence]
        assert await again.release() is True
        assert await lease.release() is True

    run(flavor, scenario)


async def until_granted(lab: Lab, client: aio.Client, name: str) -> aio.Lease:
    """Acquire as soon as somebody serves it."""
    give_up = clock.now() + LONG
    while True:
        try:
            return await client.lock(name, ttl=20).acquire(timeout=LONG)
        except (Unavailable, OutcomeUnknown):
            assert clock.now() < give_up
            await lab.let_pass(0.1)
