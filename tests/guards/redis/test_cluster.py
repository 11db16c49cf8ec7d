"""In a cluster the mark is in the slot of the lock's name, and so must be what it guards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from fencelock import StaleFence, UsageError
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from tests.servers.cluster import Cluster
from tests.servers.shared import shared

NAMES = ["seat:1A", "cart:{user:7}", "a}{b", "{}odd", "mañana"]


def three_nodes() -> Cluster:
    return Cluster(3, 0)


@pytest.fixture
def client() -> Iterator[redis.RedisCluster]:
    client = redis.RedisCluster(host="127.0.0.1", port=shared(three_nodes).nodes[0].port)
    yield client
    client.close()


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_guarded(client: redis.RedisCluster, name: str) -> None:
    guard = RedisGuard(client, prefix=f"any:{name.encode().hex()}:")
    guard.enter(5, name=name)
    with pytest.raises(StaleFence):
        guard.enter(4, name=name)
    assert guard.mark(name) == 5
    guard.reset(name, 3)
    assert guard.mark(name) == 3
    guard.reset(name)
    assert guard.mark(name) == 0


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("seat:1A", "seat:1A"),
        ("seat:1A", "{seat:1A}:customer"),
        ("cart:{user:7}", "{user:7}:items"),
        ("a{b", "{a{b}:x"),
    ],
)
def test_a_key_with_the_tag_of_the_name_can_be_guarded(
    client: redis.RedisCluster, name: str, key: str
) -> None:
    guard = RedisGuard(client, prefix=f"tag:{key.encode().hex()}:")
    guard.set(key, "v", 5, name=name)
    assert guard.get(key, 5, name=name) == b"v"
    with pytest.raises(StaleFence):
        guard.set(key, "w", 4, name=name)


def test_a_key_of_another_slot_is_refused(client: redis.RedisCluster) -> None:
    guard = RedisGuard(client)
    with pytest.raises(UsageError, match="hash tag"):
        guard.set("elsewhere", "v", 5, name="here")
    assert client.get("elsewhere") is None


def test_marks_are_forgotten_on_all_nodes(client: redis.RedisCluster) -> None:
    guard = RedisGuard(client, prefix="old:")
    for number in range(20):
        guard.enter(1, name=str(number))
        client.set(f"old:{{{number}}}", f"{1:019} 0")
    assert guard.forget(3600) == 20


async def _asyncio() -> None:
    async with redis.asyncio.RedisCluster(
        host="127.0.0.1", port=shared(three_nodes).nodes[0].port
    ) as client:
        guard = AsyncRedisGuard(client, prefix="aio:")
        await guard.set("{seat}:x", "v", 5, name="seat")
        assert await guard.get("{seat}:x", 5, name="seat") == b"v"
        with pytest.raises(StaleFence):
            await guard.set("{seat}:x", "w", 4, name="seat")
        with pytest.raises(UsageError, match="hash tag"):
            await guard.set("elsewhere", "w", 6, name="seat")
        assert await guard.mark("seat") == 5


def test_the_same_under_asyncio() -> None:
    asyncio.run(_asyncio())
