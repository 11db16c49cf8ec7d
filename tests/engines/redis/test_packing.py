"""hiredis packs nothing but text and bytes for us.

It asks a number for its text and does not look whether that failed; a signal whose handler raises
makes it fail, and Ctrl-C at the wrong moment would be a segmentation fault.
"""

from __future__ import annotations

from typing import Any

import hiredis
import pytest
import redis

from fencelock.engines.redis.wire import connection
from fencelock.guards.redis import RedisGuard
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.shared import shared


def single() -> Redis:
    return Redis()


def several() -> Nodes:
    return Nodes()


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Every command that hiredis packs, in our own name or for redis-py."""
    seen: list[tuple[Any, ...]] = []
    pack = hiredis.pack_command

    def look_on(words: tuple[Any, ...]) -> bytes:
        seen.append(words)
        return bytes(pack(words))

    monkeypatch.setattr(hiredis, "pack_command", look_on)
    monkeypatch.setattr(connection, "_pack", look_on)
    return seen


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("engine", ["redis", "redlock"])
def test_no_number_is_packed(engine: str, flavor: str, packed: list[tuple[Any, ...]]) -> None:
    async def scenario(lab: Lab) -> None:
        url = (
            shared(single).url.removesuffix("0") + "300"
            if engine == "redis"
            else shared(several).url + "/3"
        )
        client, rival = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        waiter = lab.start(rival.lock("seat", ttl=60).acquire(timeout=30))
        if engine == "redis":
            await lab.until_queued(client, "seat", 1)
        await lease.renew()
        await lease.release()
        heir = await waiter.result()
        assert await client.scan("s")
        assert await client.revoke("seat", "why not")
        await heir.release()

    run(flavor, scenario)
    assert {words[0] for words in packed} >= {"EVALSHA", "SCAN"}
    assert [
        words for words in packed if not all(type(word) in (str, bytes) for word in words)
    ] == []


def test_no_number_is_packed_for_a_guard(packed: list[tuple[Any, ...]]) -> None:
    with redis.Redis.from_url(shared(single).url) as store:
        guard = RedisGuard(store, marks_ttl=60)
        guard.set("count", 5, 7, name="seat", ex=100)
        assert (
            guard.eval("return {KEYS[1], ARGV[1]}", ["count"], [1.5], 8, name="seat")[1] == b"1.5"
        )
        assert guard.forget(10.0) == 0
    evaluated = [words for words in packed if words[0] in (b"EVAL", b"EVALSHA")]
    assert len(evaluated) > 2
    assert [words for words in evaluated if not all(type(w) in (str, bytes) for w in words)] == []
