"""What an operator does to a server that is in use."""

from __future__ import annotations

import pytest

from fencelock import LeaseLost
from tests.faults.flavors import Lab, make_due, run
from tests.servers.redis import Redis


def test_a_server_that_forgets_its_scripts_is_told_them_again(flavor: str, server: Redis) -> None:
    """H40: SCRIPT FLUSH before every single step: renewing, waiting, releasing and taking over."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        server.cli("SCRIPT", "FLUSH")
        await lab.until_renewed(lease)
        server.cli("SCRIPT", "FLUSH")
        assert await other.lock("seat").try_acquire() is None
        server.cli("SCRIPT", "FLUSH")
        waiting = lab.start(other.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(client, "seat", 1)
        server.cli("SCRIPT", "FLUSH")
        assert await lease.release() is True
        taken = await waiting.result()
        assert taken.fence > lease.fence
        server.cli("SCRIPT", "FLUSH")
        assert await other.revoke("seat", "enough") is True
        with pytest.raises(LeaseLost, match="enough"):
            await taken.renew()
        assert not told

    run(flavor, scenario)


def test_a_holder_whose_key_was_deleted_is_told_and_takes_nothing_again(
    flavor: str, server: Redis
) -> None:
    """H40: FLUSHALL by somebody who did not know. The next renewal says so."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        lease = await client.lock("seat", ttl=60).acquire()
        server.cli("FLUSHALL")
        make_due(lease)
        assert await lease.lost.wait(timeout=10)
        assert server.cli("EXISTS", "seat") == 0
        again = await client.lock("seat").acquire(timeout=0)
        assert again.fence > lease.fence
        await again.release()

    run(flavor, scenario)


def test_clients_whose_connections_are_killed_go_on(flavor: str, server: Redis) -> None:
    """H40: CLIENT KILL of all, the inbox of the waiters included."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.lock("seat", ttl=60).acquire()
        waiting = lab.start(other.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(client, "seat", 1)
        server.cli("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        server.cli("CLIENT", "KILL", "TYPE", "pubsub")
        assert await lease.release() is True
        taken = await waiting.result()
        assert taken.fence > lease.fence
        await taken.release()

    run(flavor, scenario)
