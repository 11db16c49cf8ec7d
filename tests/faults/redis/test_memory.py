"""A server that has no memory left: one that drops keys, and one that refuses changes."""

from __future__ import annotations

import pytest

from fencelock import LeaseLost, Unavailable
from fencelock._client import administration
from tests.faults.flavors import Lab, run
from tests.servers.redis import Redis
from tests.servers.resp import ReplyError

LITTLE = "3mb"


def crowd_out(server: Redis, key: str) -> None:
    """Write other keys until the server drops this one."""
    with server.line() as line:
        for number in range(100_000):
            line.ask("SET", f"crowd:{number}", "x" * 1000)
            if number % 100 == 0 and line.ask("EXISTS", key) == 0:
                return
    raise AssertionError("the server dropped nothing")


def test_a_holder_whose_lock_was_evicted_is_told(flavor: str) -> None:
    """H41: at its next renewal. Whoever has it then has a higher fence."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(server.url), await lab.connect(server.url)
        lease = await client.lock("seat", ttl=60).acquire()
        crowd_out(server, "seat")
        taken = await other.lock("seat", ttl=60).acquire(timeout=0)
        assert taken.fence > lease.fence
        with pytest.raises(LeaseLost):
            await lease.renew()
        assert await lease.release() is False
        await taken.release()

    with Redis(maxmemory=LITTLE, eviction="allkeys-lru") as server:
        run(flavor, scenario)


def test_a_server_that_may_drop_locks_is_reported(flavor: str) -> None:
    """H41: before anything is lost, to whoever asks; and not where it cannot happen."""

    async def findings(lab: Lab, server: Redis) -> list[str]:
        client = await lab.connect(server.url)
        return [
            one.topic
            for one in await administration.diagnose(client._core)
            if one.level == "problem"
        ]

    with Redis(maxmemory=LITTLE, eviction="allkeys-lru") as server:
        assert run(flavor, lambda lab: findings(lab, server)) == ["eviction"]
    with Redis(maxmemory=LITTLE, eviction="noeviction") as server:
        assert run(flavor, lambda lab: findings(lab, server)) == []


def test_a_server_that_is_full_refuses_and_changes_nothing(flavor: str) -> None:
    """H41: noeviction, as it should be. Held locks can be given back."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        lease = await client.lock("seat", ttl=60).acquire()
        with pytest.raises(ReplyError, match="OOM"):
            crowd_out(server, "seat")
        server.cli("CONFIG", "SET", "maxmemory", "1mb")  # not even a small key has room
        with pytest.raises(Unavailable, match=r"out of memory.*nothing happened"):
            await client.lock("other", ttl=60).acquire(timeout=0)
        assert server.cli("EXISTS", "other") == 0
        lease.check()
        await lease.renew()
        assert await lease.release() is True

    with Redis(maxmemory=LITTLE) as server:
        run(flavor, scenario)
