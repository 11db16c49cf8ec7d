"""Who is dead is judged by Firestore's time: of a read, and of the last update of the document."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.model import Busy, Grant, Request
from fencelock.worlds.host import HostWorld
from tests.faults.flavors import SOON, Lab, run

TTL_S = 60.0
BRIEF_S = 0.5


def wish(client: Any, ttl: float) -> Request:
    return Request("seat", client._core.world.owner(), ttl)


@pytest.mark.parametrize("years", [-30, 30])
def test_clocks_that_are_set_apart_steal_nothing(
    flavor: str, locks_url: str, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """H26: a wall clock that is years off takes no lock, loses none, and keeps no dead one."""

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        right = HostWorld.wall_us
        moved = int(years * 365 * 86_400 * 1e6)
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: right(self) + moved)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        assert await other.lock("seat", ttl=TTL_S).try_acquire() is None
        monkeypatch.undo()
        assert await other.lock("seat", ttl=TTL_S).try_acquire() is None
        await lease.renew()
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: right(self) - moved)
        assert await other.lock("seat", ttl=TTL_S).try_acquire() is None
        assert await lease.release()
        await one._core.engine.acquire(wish(one, BRIEF_S))
        monkeypatch.undo()
        assert await (await other.lock("seat", ttl=TTL_S).acquire(timeout=SOON)).release()

    run(flavor, scenario)


def test_a_newcomer_takes_at_once_what_has_been_dead_for_long(flavor: str, locks_url: str) -> None:
    """H21: it need not have watched the holder while that died."""

    async def scenario(lab: Lab) -> None:
        dead = await lab.connect(locks_url)
        grant = await dead._core.engine.acquire(wish(dead, BRIEF_S))
        assert isinstance(grant, Grant)
        await lab.let_pass(3 * BRIEF_S)
        newcomer = await lab.connect(locks_url, prefix="")
        taken = await newcomer._core.engine.acquire(wish(newcomer, TTL_S))
        assert isinstance(taken, Grant)
        assert taken.fence > grant.fence
        assert not await dead._core.engine.release(grant)
        assert await newcomer._core.engine.release(taken)

    run(flavor, scenario)


def test_a_holder_that_renews_at_the_last_moment_keeps_its_lock(
    flavor: str, locks_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has seen it dead deletes it on condition that it was not updated since."""

    async def scenario(lab: Lab) -> None:
        holder, rival = await lab.connect(locks_url), await lab.connect(locks_url)
        engine = rival._core.engine
        grant = await holder._core.engine.acquire(wish(holder, BRIEF_S))
        assert isinstance(grant, Grant)
        await lab.let_pass(2 * BRIEF_S)
        read, renewals = engine._wire.read, list[Any]()  # type: ignore[attr-defined]

        async def read_and_be_late(*ids: str) -> Any:
            found = await read(*ids)
            if not renewals:  # it is seen dead here, and renewed before it is deleted
                alive = grant._replace(valid_until=grant.valid_until + TTL_S, ttl=TTL_S)
                renewals.extend(await holder._core.engine.renew([alive]))
            return found

        monkeypatch.setattr(engine._wire, "read", read_and_be_late)  # type: ignore[attr-defined]
        assert isinstance(await engine.acquire(wish(rival, TTL_S)), Busy)
        (renewed,) = renewals
        assert isinstance(renewed, Grant)
        assert renewed.fence == grant.fence
        assert await holder._core.engine.release(renewed)

    run(flavor, scenario)


def test_a_renewal_always_counts_although_nothing_else_has_changed(
    flavor: str, locks_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Firestore keeps the time of the last update where a write changes nothing."""

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(locks_url)
        engine = holder._core.engine
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: 1_000_000)
        grant = await engine.acquire(wish(holder, TTL_S))
        assert isinstance(grant, Grant)
        updates = [engine._updated[grant.owner]]  # type: ignore[attr-defined]
        for _ in range(3):
            await engine.renew([grant])
            updates.append(engine._updated[grant.owner])  # type: ignore[attr-defined]
        assert updates == sorted(set(updates))
        assert await engine.release(grant)

    run(flavor, scenario)
