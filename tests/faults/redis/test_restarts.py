"""A server that comes back, with or without what it knew."""

from __future__ import annotations

import shutil

import pytest

from fencelock import LeaseLost
from tests.faults.flavors import SOON, Lab, run
from tests.faults.redis.links import renew_anew
from tests.servers.redis import Redis


def test_fences_never_go_back_although_all_data_is_lost(flavor: str, server: Redis) -> None:
    """H35: killed and started empty, again and again, by two clients that know nothing else."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        fences = []
        for _ in range(3):
            for _ in range(3):
                lease = await client.lock("seat", ttl=60).acquire(timeout=SOON)
                fences.append(lease.fence)
                assert await lease.release() is True
            server.kill()
            server.start()
            assert server.cli("DBSIZE") == 0
        newcomer = await lab.connect(server.url)
        async with newcomer.lock("seat") as last:
            fences.append(last.fence)
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_a_holder_that_the_server_has_forgotten_is_told(flavor: str, server: Redis) -> None:
    """H35: another holds the lock now, with a higher fence; a lost key is never taken again."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.lock("seat", ttl=3.0).acquire()
        server.kill()
        server.start()
        taken = await other.lock("seat", ttl=60).acquire(timeout=SOON)
        assert taken.fence > lease.fence
        assert await lease.lost.wait(timeout=10)
        assert await lease.release() is False
        taken.check()
        assert len(await other.holders("seat")) == 1
        await taken.release()

    run(flavor, scenario)


def test_a_waiter_queues_again_when_the_server_has_forgotten_the_queue(
    flavor: str, server: Redis
) -> None:
    """H35: the queue is gone with everything else, and nobody sleeps beside a free lock."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        holder = await other.lock("seat", ttl=2.0, renew=False).acquire()
        waiting = lab.start(client.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(other, "seat", 1)
        server.kill()
        server.start()
        lease = await waiting.result()
        assert lease.fence > holder.fence
        await holder.release()
        await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("persistence", ["rdb", "everysec", "always"])
def test_a_lease_survives_a_restart_of_a_server_that_remembers(
    flavor: str, persistence: str
) -> None:
    """H35: the same holder, the same fence, and nobody else is let in."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        lease = await client.lock("seat", ttl=30).acquire()
        server.restart()
        other = await lab.connect(server.url)
        (holding,) = await other.holders("seat")
        assert holding.fence == lease.fence
        assert await other.lock("seat").try_acquire() is None
        await renew_anew(lease)
        assert await lease.release() is True

    with Redis(persistence=persistence) as server:
        run(flavor, scenario)


def test_a_power_cut_that_loses_the_last_second_is_survived_by_the_fence(flavor: str) -> None:
    """H36: the log ends before the grant. Another is granted the lock, with a higher fence."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        async with client.lock("seat", ttl=60) as earlier:
            first = earlier.fence
        saved = server.folder / "saved"
        log = server.folder / "appendonlydir"
        server.restart()  # everything until now is on disk
        shutil.copytree(log, saved)
        lease = await client.lock("seat", ttl=60).acquire(timeout=SOON)
        server.kill()
        shutil.rmtree(log)
        saved.rename(log)
        server.start()
        taken = await other.lock("seat", ttl=60).acquire(timeout=SOON)
        assert first < lease.fence < taken.fence
        with pytest.raises(LeaseLost):
            await renew_anew(lease)
        taken.check()
        await taken.release()

    with Redis(persistence="everysec") as server:
        run(flavor, scenario)
