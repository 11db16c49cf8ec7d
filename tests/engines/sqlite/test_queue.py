"""A queue row of somebody who waits no more is taken away, also if nobody withdraws it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencelock.engines import waiters
from fencelock.engines.sqlite import transactions
from fencelock.model import Busy, Grant, Request
from fencelock.world import World
from tests.engines.sqlite.stage import flavors, opened, play, until

TTL = 600.0

push = pytest.mark.parametrize("push", ["yes", "no"])


def wish(world: World, queue: bool = False) -> Request:
    return Request("seat", world.owner(), TTL, queue=queue)


@push
@flavors
def test_a_lock_handed_to_somebody_who_waits_no_more_is_given_back_at_once(
    flavor: str, push: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H31: the withdrawal was lost, the client lives: it answers the push for the one who left."""
    monkeypatch.setattr(transactions, "CLAIM_S", TTL)

    async def scenario(world: World) -> None:
        holds = await opened(world, tmp_path / "locks.db")
        waits = await opened(world, tmp_path / "locks.db", push=push)
        held = await holds.acquire(wish(world))
        assert isinstance(held, Grant)
        waiter = wish(world, queue=True)
        await waits.watch(waiter, world.signal())
        assert isinstance(await waits.acquire(waiter), Busy)
        await waits.unwatch(waiter)
        assert await holds.release(held) is True

        async def is_free() -> bool:
            grant = await holds.acquire(wish(world))
            return isinstance(grant, Grant) and await holds.release(grant)

        await until(world, is_free, "the lock is free")
        assert (await holds.inspect("seat")).waiters == ()
        await waits.withdraw(waiter)  # late, and again: both are allowed
        await waits.withdraw(waiter)
        await waits.close()
        await holds.close()

    play(flavor, scenario)


@flavors
def test_a_queue_row_that_nobody_waits_with_is_not_kept_alive(
    flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H31: while others of the same client wait on, whose rows are refreshed."""
    monkeypatch.setattr(waiters, "HEARTBEAT_S", 0.1)

    async def scenario(world: World) -> None:
        engine = await opened(world, tmp_path / "locks.db")
        held = await engine.acquire(wish(world))
        assert isinstance(held, Grant)
        waiting = [wish(world, queue=True) for _ in range(3)]
        for waiter in waiting:
            await engine.watch(waiter, world.signal())
            assert isinstance(await engine.acquire(waiter), Busy)
        await engine.unwatch(waiting[0])

        async def waiters() -> bool:
            return len((await engine.inspect("seat")).waiters) == 2

        await until(world, waiters, "two are left")
        for waiter in waiting[1:]:
            assert isinstance(await engine.acquire(waiter), Busy)
        assert await engine.release(held) is True
        taken = await engine.acquire(waiting[1])
        assert isinstance(taken, Grant)
        await engine.close()

    play(flavor, scenario)
