"""Three members, of which the leader is frozen and killed, then another: no majority is left.

One story for each flavor, since three Java machines take long to start. A CP member that was killed
does not come back without CP persistence.
"""

from __future__ import annotations

import pytest

from fencelock import FencelockError, LeaseLost, OutcomeUnknown, Unavailable
from tests.engines.hazelcast.test_sessions import waits
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import Lab, run
from tests.servers.hazelcast import HazelcastCluster

TTL = 350  # seconds: longer than an election on a busy machine
LONG = 150.0  # seconds: elections on a busy machine, and deadlines that have to pass


def test_a_lease_outlives_its_leader_and_ends_by_its_own_clock_without_a_majority(
    flavor: str, cluster: HazelcastCluster
) -> None:
    """H54: what is held and waited for outlasts a leader that is gone; then nothing is granted."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(cluster.url, request_timeout=3.0, connect_timeout=30.0)
        rival = await lab.connect(cluster.url, request_timeout=3.0, connect_timeout=30.0)
        first = await client.lock("seat", ttl=TTL, on_lost=told.append).acquire()
        waiter = lab.start(rival.lock("seat", ttl=TTL).acquire(timeout=LONG))
        await lab.until(lambda: waits(rival), "a waiter")

        leader = cluster.leader()
        cluster.freeze(leader)  # others ask it until the members have noticed that it stands still
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
