"""When Redis cannot be reached, or does not answer: what is said, and what has happened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.retry
from redis.backoff import NoBackoff
from redis.retry import Retry

from fencelock import Denied, EngineError, OutcomeUnknown, Unavailable
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from tests.servers.link import TO_CLIENT
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.server import free_port
from tests.servers.shared import shared

NAME = "seat"


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(shared(Redis).port) as proxy:
        yield proxy


@pytest.fixture
def direct() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(shared(Redis).fresh_url()) as client:
        yield client


@pytest.fixture
def database(direct: redis.Redis) -> int:
    return int(direct.connection_pool.connection_kwargs["db"])


def test_nobody_there_is_unavailable_and_nothing_happens() -> None:
    with redis.Redis(port=free_port(), retry=Retry(NoBackoff(), 1)) as client:
        guard = RedisGuard(client)
        for call in (
            lambda: guard.enter(1, name=NAME),
            lambda: guard.set("key", "v", 1, name=NAME),
            lambda: guard.mark(NAME),
            lambda: guard.reset(NAME),
        ):
            with pytest.raises(Unavailable):
                call()


async def _nobody_there() -> None:
    never = redis.asyncio.retry.Retry(NoBackoff(), 1)
    async with redis.asyncio.Redis(port=free_port(), retry=never) as client:
        guard = AsyncRedisGuard(client)
        with pytest.raises(Unavailable):
            await guard.set("key", "v", 1, name=NAME)


def test_nobody_there_is_unavailable_under_asyncio() -> None:
    asyncio.run(_nobody_there())


def test_a_lost_answer_is_an_unknown_outcome_and_is_sent_once(
    proxy: Proxy, direct: redis.Redis, database: int
) -> None:
    """The driver alone would send it again."""
    with redis.Redis(port=proxy.port, db=database) as client:
        guard = RedisGuard(client)
        guard.enter(1, name=NAME)
        proxy.lose_next_reply(b"EVALSHA")
        script = "return redis.call('INCR', KEYS[1])"
        guard_of_direct = RedisGuard(direct)
        guard_of_direct.eval(script, ["warm"], [], 1, name=NAME)  # known by its digest
        with pytest.raises(OutcomeUnknown):
            guard.eval(script, ["count"], [], 1, name=NAME)
        assert direct.get("count") == b"1"
        assert guard.eval(script, ["count"], [], 1, name=NAME) == 2


async def _lost_answer(proxy: Proxy, direct: redis.Redis, database: int) -> None:
    async with redis.asyncio.Redis(port=proxy.port, db=database) as client:
        guard = AsyncRedisGuard(client)
        await guard.set("key", "one", 1, name=NAME)
        proxy.lose_next_reply(b"EVALSHA")
        with pytest.raises(OutcomeUnknown):
            await guard.set("key", "two", 1, name=NAME)
        assert direct.get("key") == b"two"
        await guard.set("key", "three", 1, name=NAME)


def test_a_lost_answer_is_an_unknown_outcome_under_asyncio(
    proxy: Proxy, direct: redis.Redis, database: int
) -> None:
    asyncio.run(_lost_answer(proxy, direct, database))


async def _cancelled(proxy: Proxy, database: int) -> None:
    options: dict[str, Any] = {"max_connections": 1, "socket_timeout": 60}  # past any stall
    async with redis.asyncio.Redis(port=proxy.port, db=database, **options) as client:
        guard = AsyncRedisGuard(client)
        await guard.set("one", "1", 1, name=NAME)
        await guard.set("two", "2", 1, name=NAME)
        assert await guard.get("one", 1, name=NAME) == b"1"
        proxy.block(TO_CLIENT)
        task = asyncio.create_task(guard.get("one", 1, name=NAME))
        give_up = asyncio.get_running_loop().time() + 30
        while not proxy.waiting():  # until the answer is on its way
            assert asyncio.get_running_loop().time() < give_up
            await asyncio.sleep(0.001)
        while not task.done():  # Python 3.11 loses a cancellation that comes as its wait_for ends
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.heal()
        assert await guard.get("two", 1, name=NAME) == b"2"


def test_the_answer_to_a_cancelled_call_is_nobody_elses(proxy: Proxy, database: int) -> None:
    """A connection with an answer under way must not be used again."""
    asyncio.run(_cancelled(proxy, database))


def test_a_frozen_server_is_an_unknown_outcome(proxy: Proxy, database: int) -> None:
    with redis.Redis(port=proxy.port, db=database, socket_timeout=1.5) as client:
        guard = RedisGuard(client)
        guard.enter(1, name=NAME)
        proxy.block()
        with pytest.raises(OutcomeUnknown):
            guard.set("key", "v", 1, name=NAME)
        proxy.heal()


def test_a_replica_cannot_be_guarded() -> None:
    with Redis() as primary, Redis(replica_of=primary) as replica:
        with redis.Redis.from_url(replica.url) as client:
            with pytest.raises(Unavailable, match="read only"):
                RedisGuard(client).set("key", "v", 1, name=NAME)


def test_who_may_not_run_scripts_is_denied_and_nothing_happens() -> None:
    with Redis(users=["app on >secret ~* &* +@all -@scripting"]) as server:
        url = server.url.replace("://", "://app:secret@")
        with redis.Redis.from_url(url) as client:
            with pytest.raises(Denied):
                RedisGuard(client).set("key", "v", 1, name=NAME)
            assert client.get("key") is None
        wrong = server.url.replace("://", "://app:wrong@")
        with redis.Redis.from_url(wrong) as client, pytest.raises(Denied):
            RedisGuard(client).enter(1, name=NAME)


def test_a_server_out_of_memory_is_unavailable_and_nothing_happens() -> None:
    with Redis(maxmemory="1mb") as server, redis.Redis.from_url(server.url) as client:
        guard = RedisGuard(client)
        with pytest.raises(EngineError, match="maxmemory"):
            for number in range(10_000):
                guard.set(f"key {number}", "v" * 1000, 1, name=NAME)
        with pytest.raises(Unavailable):
            guard.set("last", "v", 1, name=NAME)
        assert client.get("last") is None


def test_a_client_with_one_connection_is_used_as_it_is(direct: redis.Redis, database: int) -> None:
    with redis.Redis(port=shared(Redis).port, db=database, single_connection_client=True) as client:
        guard = RedisGuard(client)
        guard.set("key", "v", 5, name=NAME)
        assert guard.mark(NAME) == 5
    assert direct.get("key") == b"v"
