"""A server that is restarted, killed or frozen."""

from __future__ import annotations

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


@pytest.mark.parametrize("mode", ["advisory", "row"])
def test_a_carried_lock_ends_with_the_server_and_its_holder_is_told(
    flavor: str, mode: str, table: str, own: SqlServer
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), mode=mode, table=table)
        lease = await client.lock("seat", ttl=3).acquire()
        own.kill()
        own.start()
        assert await lease.lost.wait(10)
        again = await client.lock("seat", ttl=3, timeout=10).acquire()
        assert again.fence > lease.fence
        await again.release()

    run(flavor, scenario)


@pytest.mark.parametrize("mode", ["lease", "advisory", "row"])
def test_calls_to_a_frozen_server_end_by_themselves(
    flavor: str, mode: str, table: str, own: SqlServer
) -> None:
    """H39: a grant that comes too late is not believed, and nothing is left behind."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own.url(), mode=mode, table=table, patience=0.5)
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
