"""A key of Redis written by redis-py, with the guard and without, blocking and with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import ClassVar

from bench.contestant import Target
from bench.redis_server import OnRedis
from bench.writing import Writing
from bench.writing_aio import AioWriting

LIMIT = 1.3
KEY, VALUE, NAME = "stock:42", "17", "stock:42"
FENCE = 1_790_000_000_000_000  # as long as those of the engine


class RedisBare(OnRedis, Writing):
    """One SET."""

    name = "redis bare write"
    field = "guarded key in redis"
    works = frozenset({"guards"})
    yardstick = works
    needs = ("redis",)

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _blocking(self.place, guarded=False)


class RedisGuarded(OnRedis, Writing):
    """The same by RedisGuard.set."""

    name = "redis guarded write"
    field = RedisBare.field
    works = frozenset({"guards"})
    needs = ("redis",)
    targets: ClassVar = {"guards": (Target("wall_us", "at most", LIMIT, versus=RedisBare.name),)}

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _blocking(self.place, guarded=True)


@contextmanager
def _blocking(url: str, guarded: bool) -> Iterator[Callable[[], object]]:
    import redis

    from fencelock.guards.redis import RedisGuard

    with redis.Redis.from_url(url) as client:
        guard = RedisGuard(client)
        if guarded:
            yield lambda: guard.set(KEY, VALUE, FENCE, name=NAME)
        else:
            yield lambda: client.set(KEY, VALUE)


class RedisAioBare(OnRedis, AioWriting):
    """One SET, awaited."""

    name = "redis.asyncio bare write"
    field = "guarded key in redis, asyncio"
    works = frozenset({"guards"})
    yardstick = works
    needs = ("redis",)

    def aio_writer(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        return _awaited(self.place, guarded=False)


class RedisAioGuarded(OnRedis, AioWriting):
    """The same by AsyncRedisGuard.set."""

    name = "redis.asyncio guarded write"
    field = RedisAioBare.field
    works = frozenset({"guards"})
    needs = ("redis",)
    targets: ClassVar = {"guards": (Target("wall_us", "at most", LIMIT, versus=RedisAioBare.name),)}

    def aio_writer(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        return _awaited(self.place, guarded=True)


@asynccontextmanager
async def _awaited(url: str, guarded: bool) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    import redis.asyncio

    from fencelock.guards.redis import AsyncRedisGuard

    async with redis.asyncio.Redis.from_url(url) as client:
        guard = AsyncRedisGuard(client)

        async def bare() -> None:
            await client.set(KEY, VALUE)

        async def write() -> None:
            await guard.set(KEY, VALUE, FENCE, name=NAME)

        yield write if guarded else bare
