"""The rights that the engine's page lists are enough, and less is said clearly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fencelock
from fencelock import Denied
from fencelock.testing.conformance.context import engine_of
from tests.faults.flavors import Lab, run
from tests.servers.redis import Redis

PAGE = Path(__file__).parents[3] / "docs" / "engines" / "redis.md"


def rights() -> str:
    """What the page tells people to write into the access list."""
    text = PAGE.read_text(encoding="utf-8").partition("**Rights.**")[2]
    listed = re.search(r"needs `(.*?)`", text, re.DOTALL)
    assert listed
    return " ".join(listed[1].split())


@pytest.mark.parametrize("flavor", ["sync", "asyncio"])
def test_the_listed_rights_are_enough(flavor: str) -> None:
    with Redis(users=[f"app on >secret ~* &fencelock:inbox:* {rights()}"]) as server:
        url = f"redis://app:secret@127.0.0.1:{server.port}/0"

        async def scenario(lab: Lab) -> None:
            client, rival = await lab.connect(url), await lab.connect(url)
            lease = await client.lock("a", ttl=5).acquire()
            waiter = lab.start(rival.lock("a", ttl=5, timeout=10).acquire())
            await lab.until_queued(client, "a", 1)
            await lease.renew()
            await lease.release()
            await (await waiter.result()).release()
            assert await client.holders("a") == []
            shares = [client.semaphore("a", limit=1, ttl=5), client.rwlock("a", ttl=5).write()]
            rivals = [rival.semaphore("a", limit=1, timeout=10), rival.rwlock("a").read()]
            for share, other in zip(shares, rivals, strict=True):
                lease = await share.acquire()
                waiter = lab.start(other.acquire(timeout=10))
                await lab.until_queued(client, "a", 1)
                await lease.renew()
                await lease.release()
                await (await waiter.result()).release()
            signal = client._core.world.signal()
            await engine_of(client).observe("a", signal)
            await engine_of(rival).announce("a")
            await lab.until(signal.is_set, "an announcement")
            await engine_of(client).remember("a", "item", 1, 60.0)
            assert await engine_of(rival).recall("a") == {"item": 1}
            await engine_of(rival).forget("a")
            assert await client.revoke("a", "why not") is False

        run(flavor, scenario)


def test_a_right_that_is_missing_is_told() -> None:
    few = rights().replace("+evalsha", "").replace("+eval", "")
    with Redis(users=[f"app on >secret ~* &fencelock:inbox:* {few}"]) as server:
        with fencelock.connect(f"redis://app:secret@127.0.0.1:{server.port}/0") as client:
            with pytest.raises(Denied, match="which rights the page of the engine lists"):
                client.lock("a").acquire()
