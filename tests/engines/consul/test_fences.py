"""Fences grow with every grant of a name, whatever became of its key in between."""

from __future__ import annotations

from pathlib import Path

from tests.faults.flavors import SOON, Lab, run
from tests.servers.consul import Consul


def test_they_grow_across_a_release_though_the_key_begins_anew(flavor: str, consul: Consul) -> None:
    """The LockIndex is 1 each time; the index of the write is not."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, fences = await lab.connect(url), list[int]()
        for _ in range(20):
            async with client.lock("seat", ttl=30) as lease:
                pair = consul.pair(url.partition("prefix=")[2] + "seat")
                assert (pair["LockIndex"], pair["ModifyIndex"]) == (1, lease.fence)
                fences.append(lease.fence)
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_they_grow_after_a_session_was_destroyed_and_after_a_revocation(
    flavor: str, consul: Consul
) -> None:
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        first = await client.lock("seat", ttl=30).acquire()
        key = url.partition("prefix=")[2] + "seat"
        consul.ask("PUT", f"session/destroy/{consul.pair(key)['Session']}")
        second = await rival.lock("seat", ttl=30).acquire(timeout=SOON)
        assert await client.revoke("seat", "maintenance") is True
        third = await client.lock("seat", ttl=30).acquire(timeout=SOON)
        assert first.fence < second.fence < third.fence
        assert [await one.release() for one in (first, second, third)] == [False, False, True]

    run(flavor, scenario)


def test_they_grow_across_restarts_and_a_snapshot_that_is_restored(
    flavor: str, own_consul: Consul, tmp_path: Path
) -> None:
    """H35: the number of the log goes on, even where the data goes back."""

    async def scenario(lab: Lab) -> None:
        client, fences = await lab.connect(own_consul.url), list[int]()

        async def take() -> None:
            lease = await client.lock("seat", ttl=30).acquire(timeout=SOON)
            fences.append(lease.fence)
            await lease.release()

        await take()
        own_consul.run_words("snapshot", "save", tmp_path / "saved")
        await take()
        own_consul.kill()
        own_consul.start()
        await take()
        own_consul.run_words("snapshot", "restore", tmp_path / "saved")
        await take()
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_a_longer_ttl_and_another_client_keep_the_fence(flavor: str, consul: Consul) -> None:
    """Each needs another session, and so a new write to the key."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=30, renew=False).acquire()
        await lease.renew(ttl=300)
        key = url.partition("prefix=")[2] + "seat"
        assert consul.pair(key)["ModifyIndex"] > lease.fence
        (holding,) = await rival.holders("seat")
        assert (holding.fence, holding.ttl) == (lease.fence, 300)
        assert await rival.lock("seat").try_acquire() is None
        assert await lease.release() is True
        async with rival.lock("seat", ttl=30) as next_lease:
            assert next_lease.fence > lease.fence
        assert consul.pair(key) is None

    run(flavor, scenario)
