"""Three members, of which the leader is frozen and killed, then another: no majority is left.
Or the leader is cut off from the others, and its clients still reach it.

One story for each flavor, since three Java machines take long to start. A CP member that was killed
does not come back without CP persistence.
"""

from __future__ import annotations

import pytest

from fencelock import FencelockError, LeaseLost, OutcomeUnknown, Unavailable, aio
from fencelock.worlds import clock
from tests.engines.hazelcast.test_sessions import waits
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import Lab, run
from tests.servers.hazelcast import HazelcastCluster

LONG = 150.0  # seconds: elections on a busy machine, and deadlines that have to pass
SESSION_TTL = 60  # seconds: far more than the members need to notice that one is cut off


def test_a_lease_outlives_its_leader_and_ends_by_its_own_clock_without_a_majority(
    flavor: str, cluster: HazelcastCluster
) -> None:
    """H54: what is held and waited for outlasts a leader that is gone; then nothing is granted."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(cluster.url, request_timeout=3.0, connect_timeout=30.0)
        rival = await lab.connect(cluster.url, request_timeout=3.0, connect_timeout=30.0)
        first = await client.lock("seat", ttl=150, on_lost=told.append).acquire()
        waiter = lab.start(rival.lock("seat", ttl=150).acquire(timeout=LONG))
        await lab.until(lambda: waits(rival), "a waiter")

        leader = cluster.leader()
        leader.pause()  # others ask it until the members have noticed that it stands still
        await until_renewed(lab, first)
        leader.kill()
        await until_renewed(lab, first)
        assert not told
        assert not waiter.done()
        assert await first.release() is True
        second = await waiter.result(LONG)
        assert second.fence > first.fence
        await until_renewed(lab, second)
        brief = await client.lock("brief", ttl=10).acquire(timeout=LONG)

        cluster.others(leader)[0].kill()
        for timeout in (0, 2):
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await client.lock("other", ttl=20).acquire(timeout=timeout)
        with pytest.raises(FencelockError):
            await client.holders("seat")
        assert await brief.lost.wait(LONG)
        with pytest.raises(LeaseLost):
            brief.check()
        with pytest.raises((Unavailable, OutcomeUnknown, LeaseLost)):
            await second.release()

    run(flavor, scenario)


def test_the_minority_grants_and_renews_nothing_and_the_majority_serves_on(flavor: str) -> None:
    """H47, H54: who holds at the minority knows its end before another is granted.

    The members notice that one is cut off after 15 s: until then they still ask it.
    """

    async def scenario(lab: Lab) -> None:
        seen = await lab.connect(cluster.url, request_timeout=3.0, connect_timeout=30.0)
        kept = await seen.lock("kept", ttl=SESSION_TTL).acquire()
        leader = cluster.leader()
        alone = f"{leader.url}?smart_routing=no"  # else it is told where the others are
        client = await lab.connect(alone, request_timeout=3.0, connect_timeout=30.0)
        others = f"{cluster.others(leader)[0].url}?smart_routing=no"
        rival = await lab.connect(others, request_timeout=3.0, connect_timeout=30.0)
        old = await client.lock("seat", ttl=20).acquire()

        async def take() -> tuple[bool, aio.Lease]:
            mine = await rival.lock("seat", ttl=SESSION_TTL).acquire(timeout=LONG)
            return bool(old), mine

        taking = lab.start(take())
        await lab.until(lambda: waits(rival), "a waiter")
        await kept.renew()
        cluster.part(leader)
        await until_renewed(lab, kept)
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
        other = await rival.lock("other", ttl=20).acquire(timeout=LONG)
        assert await other.release() is True

        cluster.heal()
        await until_renewed(lab, lease)
        again = await until_granted(lab, client, "other")
        assert again.fence > other.fence
        assert [held.fence for held in await client.holders("seat")] == [lease.fence]
        assert await again.release() is True
        await until_renewed(lab, lease)
        assert await lease.release() is True

    with HazelcastCluster(SESSION_TTL) as cluster:
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
