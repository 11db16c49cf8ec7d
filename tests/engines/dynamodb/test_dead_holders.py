"""Who is dead is judged by one's own clock, over a version that stays the same."""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from fencelock.model import Busy, Grant, Request
from fencelock.worlds.host import HostWorld
from tests.engines.dynamodb.front import Front
from tests.faults.flavors import SOON, Lab, make_due, run

TTL_S = 60.0
BRIEF_S = 0.5


def wish(client: Any, ttl: float) -> Request:
    return Request("seat", client._core.world.owner(), ttl)


@pytest.mark.parametrize("years", [-30, 30])
def test_clocks_that_are_set_apart_steal_nothing(
    flavor: str, locks_url: str, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """H59: a rival whose wall clock is years off neither takes a lock nor leaves a dead one."""

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        right = HostWorld.wall_us
        moved = int(years * 365 * 86_400 * 1e6)
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: right(self) + moved)
        for _ in range(3):
            assert await other.lock("seat", ttl=TTL_S).try_acquire() is None
        monkeypatch.undo()
        await lab.until_renewed(lease)
        assert await lease.release()
        await one._core.engine.acquire(wish(one, BRIEF_S))
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: right(self) + moved)
        assert await (await other.lock("seat", ttl=TTL_S).acquire(timeout=SOON)).release()

    run(flavor, scenario)


def test_nobody_takes_what_it_has_not_watched_for_a_whole_lease(
    flavor: str, locks_url: str
) -> None:
    """H59, H21: a newcomer says busy, however long the holder has been dead."""

    async def scenario(lab: Lab) -> None:
        dead, watcher = await lab.connect(locks_url), await lab.connect(locks_url)
        await dead._core.engine.acquire(wish(dead, BRIEF_S))
        await lab.let_pass(2 * BRIEF_S)
        answer = await watcher._core.engine.acquire(wish(watcher, TTL_S))
        assert isinstance(answer, Busy)
        assert answer.look_in <= BRIEF_S
        assert await (await watcher.lock("seat", ttl=TTL_S).acquire(timeout=SOON)).release()

    run(flavor, scenario)


def test_a_holder_that_renews_at_the_last_moment_keeps_its_lock(
    flavor: str, locks_url: str
) -> None:
    """H59: whoever has seen it dead writes on condition that its version is still the same."""

    async def scenario(lab: Lab) -> None:
        holder, rival = await lab.connect(locks_url), await lab.connect(locks_url)
        engine = rival._core.engine
        grant = await holder._core.engine.acquire(wish(holder, BRIEF_S))
        assert isinstance(grant, Grant)
        assert isinstance(await engine.acquire(wish(rival, TTL_S)), Busy)
        await lab.let_pass(2 * BRIEF_S)  # the rival has seen it dead, and has not asked again
        alive = grant._replace(valid_until=grant.valid_until + TTL_S, ttl=TTL_S)
        (renewed,) = await holder._core.engine.renew([alive])
        assert isinstance(renewed, Grant)
        assert isinstance(await engine.acquire(wish(rival, TTL_S)), Busy)
        assert await holder._core.engine.release(renewed)

    run(flavor, scenario)


def test_a_renewal_that_is_throttled_is_tried_again(flavor: str, lossy: Front) -> None:
    """H60: a table without capacity refuses heartbeats for a while; the lease goes on."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"throttled-{flavor}:")
        lease = await client.lock("seat", ttl=TTL_S).acquire()
        lossy.throttles = True
        make_due(lease)
        await lab.until(lambda: lossy.throttled, "a renewal that is throttled")
        lossy.throttles = False
        await lab.until_renewed(lease)
        assert await lease.release()

    run(flavor, scenario)


def test_a_holder_that_is_throttled_for_too_long_is_told(flavor: str, lossy: Front) -> None:
    """H60: what cannot be renewed is declared lost by the holder's own clock."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"starved-{flavor}:")
        lease = await client.lock("seat", ttl=2.0).acquire()
        lossy.throttles = True
        try:
            assert await lease.lost.wait(SOON)
            with pytest.raises(fencelock.Expired, match="cannot serve now"):
                lease.check()
        finally:
            lossy.throttles = False

    run(flavor, scenario)
