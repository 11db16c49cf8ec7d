"""Fences grow across everything but the loss of the CP group."""

from __future__ import annotations

import pytest

import fencelock
from fencelock import LeaseLost
from tests.engines.hazelcast.raw import Raw
from tests.engines.hazelcast.test_sessions import engine_of
from tests.faults.flavors import SOON, Lab, run
from tests.servers.hazelcast import Hazelcast


def test_fences_grow_across_clients_sessions_and_locks_of_others(
    flavor: str, hazelcast: Hazelcast, raw: Raw
) -> None:
    async def scenario(lab: Lab) -> None:
        url, fences = hazelcast.fresh_url(), list[int]()
        for _ in range(3):
            client = await lab.connect(url)
            for _ in range(2):
                async with client.lock("seat", ttl=30) as lease:
                    fences.append(lease.fence)
            key = engine_of(client)._key("seat")
            await client.close()
            theirs = raw.lock(key)
            fences.append(theirs.lock())
            theirs.unlock()
        assert fences == sorted({*fences})

    run(flavor, scenario)


def test_a_lock_that_was_destroyed_is_refused(hazelcast: Hazelcast, raw: Raw) -> None:
    """``destroy`` begins no fence anew: the name cannot be locked any more, and that is said."""
    with fencelock.connect(hazelcast.fresh_url()) as client:
        with client.lock("seat", ttl=30):
            pass
        raw.lock(engine_of(client)._key("seat")).destroy()  # type: ignore[arg-type]
        for timeout in (0, 1):
            with pytest.raises(fencelock.Misconfigured, match="was destroyed"):
                client.lock("seat", ttl=30).acquire(timeout=timeout)


def test_fences_begin_anew_when_all_members_restart_without_persistence(flavor: str) -> None:
    """H35: the page says so, and the doctor; the holder is told that its lease is lost."""

    async def scenario(lab: Lab) -> None:
        with Hazelcast() as server:
            client = await lab.connect(server.url, request_timeout=10.0)
            for _ in range(20):
                async with client.lock("seat", ttl=30):
                    pass
            lease = await client.lock("seat", ttl=4).acquire()
            server.kill()
            server.start()
            assert await lease.lost.wait(SOON)
            with pytest.raises(LeaseLost):
                lease.check()
            rival = await lab.connect(server.url)
            again = await rival.lock("seat", ttl=30).acquire(timeout=SOON)
            assert again.fence < lease.fence
            assert await lease.release() is False
            again.check()
            assert await again.release() is True

    run(flavor, scenario)
