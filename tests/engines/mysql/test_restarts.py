"""A server that is restarted, killed or frozen."""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer


def test_a_lease_outlives_a_crash_of_the_server(flavor: str, table: str, own: SqlServer) -> None:
    """H64: its row was committed; fences go on growing."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), table=table)
        lease = await client.lock("seat", ttl=60).acquire()
        own.kill()
        own.start()
        assert await client.lock("seat").try_acquire() is None
        await lease.renew()
        assert await lease.release() is True
        again = await client.lock("seat").acquire()
        assert again.fence > lease.fence
        await again.release()

    run(flavor, scenario)


def test_a_carried_lock_ends_with_the_server_and_its_holder_is_told(
    flavor: str, table: str, own: SqlServer
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), mode="advisory", table=table)
        lease = await client.lock("seat", ttl=3).acquire()
        own.kill()
        own.start()
        assert await lease.lost.wait(10)
        again = await client.lock("seat", ttl=3, timeout=10).acquire()
        assert again.fence > lease.fence
        await again.release()

    run(flavor, scenario)


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_calls_to_a_frozen_server_end_by_themselves(
    flavor: str, mode: str, table: str, own: SqlServer
) -> None:
    """H39: a grant that comes too late is not believed, and nothing is left behind."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), mode=mode, table=table, request_timeout=2)
        lease = await client.lock("seat", ttl=1).acquire()
        own.pause()
        try:
            with pytest.raises((fencelock.Unavailable, fencelock.OutcomeUnknown)):
                await client.lock("other", ttl=1).acquire()
            assert await lease.lost.wait(10)
        finally:
            own.resume()
        for name in ("seat", "other"):
            again = await client.lock(name, ttl=5, timeout=10).acquire()
            await again.release()

    run(flavor, scenario)


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_callers_of_a_frozen_server_have_their_own_time_back_and_leave_nothing_behind(
    flavor: str, mode: str, table: str, own: SqlServer
) -> None:
    """A request may last a minute here; whoever has less time waits for a second more at most.

    What they asked for may land when the server goes on, and is taken back then: the leases would
    last for an hour.
    """
    unheard = (fencelock.Unavailable, fencelock.OutcomeUnknown)
    hour: dict[str, Any] = {"ttl": 3600.0, "renew": False}

    async def scenario(lab: Lab) -> None:
        clients = [
            await lab.connect(own.url(), mode=mode, table=table, request_timeout=60)
            for _ in range(3)
        ]
        client, other, late = clients
        for one in clients[:2]:
            await (await one.lock("warm", **hour).acquire()).release()
        lease = await client.lock("held", **hour).acquire()
        waiting = lab.start(other.lock("held", **hour).acquire(timeout=1))
        await lab.let_pass(0.5)  # it waits by now, or is about to
        own.pause()
        try:
            jobs = [
                waiting,
                lab.start(client.lock("new", **hour).try_acquire()),
                lab.start(client.lock("warm", **hour).acquire(timeout=0.1)),
                *([lab.start(lease.release())] if flavor == "sync" else []),
                lab.start(late.lock("late", **hour).try_acquire()),
            ]
            for job in jobs:
                with pytest.raises((*unheard, fencelock.AcquireTimeout)):
                    await job.result()
        finally:
            own.resume()
        if flavor == "asyncio":
            await lease.release()
        fresh = await lab.connect(own.url(), mode=mode, table=table)
        for name in ("held", "new", "warm", "late"):
            again = await fresh.lock(name, ttl=5, timeout=20).acquire()
            await again.release()

    run(flavor, scenario)
