"""Fences are timestamps of commits: they grow whatever becomes of the row, and no row is needed."""

from __future__ import annotations

import time

import pytest

import fencelock
from fencelock.model import FENCE_MAX, Grant, Request
from fencelock.worlds.host import HostWorld
from tests.faults.flavors import SOON, Lab, run
from tests.servers.spanner import Spanner

TTL_S = 60.0
COUNT = "SELECT COUNT(*) FROM fencelock"


def test_they_grow_across_release_expiry_revocation_and_deletion(
    flavor: str, locks_url: str, server: Spanner, database: str
) -> None:
    """H56: somebody deletes the row, held or not; the holder is told, and fences grow."""

    async def scenario(lab: Lab) -> None:
        one = await lab.connect(locks_url)
        engine, fences = one._core.engine, list[int]()
        async with one.lock("seat", ttl=TTL_S) as lease:
            fences.append(lease.fence)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        fences.append(lease.fence)
        assert await one.revoke("seat", "maintenance")
        with pytest.raises(fencelock.Revoked, match="maintenance"):
            await lease.renew()
        dead = await engine.acquire(Request("seat", one._core.world.owner(), 0.2))
        assert isinstance(dead, Grant)
        fences.append(dead.fence)
        lease = await one.lock("seat", ttl=TTL_S).acquire(timeout=SOON)  # it has ended by then
        fences.append(lease.fence)
        server.execute(database, "DELETE FROM fencelock WHERE TRUE")
        with pytest.raises(fencelock.LeaseLost):
            await lease.renew()
        async with one.lock("seat", ttl=TTL_S) as lease:
            fences.append(lease.fence)
        assert fences == sorted(set(fences))
        assert fences[-1] < FENCE_MAX // 4

    run(flavor, scenario)


def test_they_grow_although_all_data_is_lost(
    locks_url: str, server: Spanner, database: str
) -> None:
    """H35: the table is dropped and made anew by the next client that comes."""
    with fencelock.connect(locks_url) as before, before.lock("seat", ttl=TTL_S) as lease:
        first = lease.fence
    server.change(database, "DROP TABLE fencelock")
    with fencelock.connect(locks_url) as after, after.lock("seat", ttl=TTL_S) as lease:
        assert lease.fence > first


def test_an_emulator_that_was_killed_has_lost_the_lock_and_fences_grow(
    flavor: str, own_server: Spanner
) -> None:
    """H35: the holder is told, and another has a higher fence."""

    async def scenario(lab: Lab) -> None:
        name = own_server.fresh_database()
        one = await lab.connect(own_server.url(name))
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        own_server.kill()
        own_server.start()
        own_server.create_database(name)
        other = await lab.connect(own_server.url(name))
        with pytest.raises(fencelock.LeaseLost):
            await lease.renew()
        async with other.lock("seat", ttl=TTL_S) as second:
            assert second.fence > lease.fence
        async with one.lock("seat", ttl=TTL_S) as third:  # with sessions of the new server
            assert third.fence > second.fence

    run(flavor, scenario)


def test_nothing_stays_of_a_lock_that_was_released(
    locks_url: str, server: Spanner, database: str
) -> None:
    with fencelock.connect(locks_url) as one:
        for number in range(5):
            with one.lock(f"seat {number}", ttl=TTL_S):
                assert server.execute(database, COUNT) == [["1"]]
    assert server.execute(database, COUNT) == [["0"]]


@pytest.mark.parametrize("years", [-30, 30])
def test_a_clock_of_a_client_changes_nothing(
    flavor: str, locks_url: str, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """H26: neither the fence nor the end of a lease."""

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        before = time.time() * 1e6
        right, moved = HostWorld.wall_us, int(years * 365 * 86_400 * 1e6)
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: right(self) + moved)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        assert abs(lease.fence - before) < 3600 * 1e6
        assert await other.lock("seat", ttl=TTL_S).try_acquire() is None
        (held,) = await other.holders("seat")
        assert 0 < held.remaining <= TTL_S
        await lab.until_renewed(lease)
        assert await lease.release()

    run(flavor, scenario)


def test_a_row_has_its_end_by_the_clock_of_the_server(
    locks_url: str, server: Spanner, database: str
) -> None:
    """By which the policy of the table deletes it, a day later."""
    left = "SELECT TIMESTAMP_DIFF(ends_at, CURRENT_TIMESTAMP(), SECOND) FROM fencelock"
    with fencelock.connect(locks_url) as one, one.lock("seat", ttl=TTL_S) as lease:
        assert 0 < int(server.execute(database, left)[0][0]) <= TTL_S
        lease.renew(ttl=10 * TTL_S)
        assert 9 * TTL_S < int(server.execute(database, left)[0][0]) <= 10 * TTL_S
