"""Fences grow whatever becomes of the document, and no document is for ever."""

from __future__ import annotations

import pytest

import fencelock
from fencelock.model import Grant, Request
from fencelock.worlds.host import HostWorld
from tests.faults.flavors import SOON, Lab, run
from tests.servers.firestore import Firestore

TTL_S = 60.0
BRIEF_S = 0.5


def test_fences_grow_although_the_document_is_deleted_each_time(
    flavor: str, locks_url: str, server: Firestore, collection: str
) -> None:
    """H56: by a release, or by somebody while it is held; then the holder is told."""

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        fences = []
        for _ in range(20):
            for client in one, other:
                async with client.lock("seat", ttl=TTL_S) as lease:
                    fences.append(lease.fence)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        fences.append(lease.fence)
        server.delete(collection, "lock:seat")
        with pytest.raises(fencelock.LeaseLost):
            await lease.renew()
        async with other.lock("seat", ttl=TTL_S) as lease:
            fences.append(lease.fence)
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_a_fence_stays_the_same_while_it_is_renewed(flavor: str, locks_url: str) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.connect(locks_url)
        async with one.lock("seat", ttl=TTL_S) as lease:
            fence = lease.fence
            for _ in range(3):
                await lease.renew()
            assert lease.fence == fence
            assert [held.fence for held in await one.holders("seat")] == [fence]

    run(flavor, scenario)


def test_fences_grow_although_all_data_is_lost(own_server: Firestore) -> None:
    """H35: the emulator keeps nothing; the holder is told, and the next fence is higher."""
    url = own_server.url_of("locks")
    with fencelock.connect(url, request_timeout=2.0) as before:
        lease = before.lock("seat", ttl=TTL_S).acquire()
        own_server.kill()
        own_server.start()
        with fencelock.connect(url) as after, after.lock("seat", ttl=TTL_S) as new:
            assert new.fence > lease.fence
            assert lease.lost.wait(SOON) or _renewed(lease)
            assert not lease.release()


def _renewed(lease: fencelock.Lease) -> bool:
    """Have a lease ask by itself, where its renewal is not due yet: it is lost."""
    with pytest.raises(fencelock.LeaseLost):
        lease.renew()
    return True


def test_a_clock_that_is_set_back_does_not_take_a_fence_back(
    locks_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H26: no clock of ours makes a fence."""
    with fencelock.connect(locks_url) as one:
        with one.lock("seat", ttl=TTL_S) as lease:
            first = lease.fence
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: 1_000_000)
        with one.lock("seat", ttl=TTL_S) as lease:
            assert lease.fence > first


def test_nothing_is_left_of_a_lock_that_is_released(
    flavor: str, locks_url: str, server: Firestore, collection: str
) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.connect(locks_url)
        for number in range(5):
            async with one.lock(f"seat-{number}", ttl=TTL_S):
                assert list(server.documents(collection)) == [f"lock:seat-{number}"]
        assert not server.documents(collection)

    run(flavor, scenario)


def test_a_client_that_opens_deletes_what_the_dead_have_left(
    flavor: str, locks_url: str, server: Firestore, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by Firestore's time only: its own clock, far ahead, makes nobody dead."""

    async def scenario(lab: Lab) -> None:
        dead = await lab.connect(locks_url)
        engine, owner = dead._core.engine, dead._core.world.owner
        assert isinstance(await engine.acquire(Request("dead", owner(), BRIEF_S)), Grant)
        assert isinstance(await engine.acquire(Request("alive", owner(), TTL_S)), Grant)
        await engine.remember("dead", "item", 7, BRIEF_S)
        await engine.remember("alive", "item", 7, TTL_S)
        await lab.let_pass(3 * BRIEF_S)
        right = HostWorld.wall_us
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: right(self) + 10**12)
        _ = await lab.connect(locks_url)
        assert sorted(server.documents(collection)) == ["lock:alive", "memo:alive"]

    run(flavor, scenario)
