"""redis-py: the official client, with a Lock for threads and one for asyncio. Waits by polling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from bench.aio import AioContestant, Pairs
from bench.contestant import Lock, Session
from bench.redis_server import OnRedis

CONNECTIONS = 1000  # its default refuses the 101st


class RedisPy(OnRedis):
    """With its defaults, but for more connections: no ttl, a look every 100 ms."""

    name = "redis-py"
    works = frozenset({"pair", "threads", "handoff", "wakeup", "idle", "import"})
    yardstick = frozenset({"pair", "threads", "handoff", "wakeup"})
    needs = ("redis",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)

    def first_use(self) -> str:
        return f"""
import redis
with redis.Redis.from_url({self.place!r}) as client:
    with client.lock("first"):
        pass
"""


class _Session(Session):
    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url, max_connections=CONNECTIONS)

    def lock(self, name: str) -> Lock:
        return _Lock(self._client.lock(name))

    def close(self) -> None:
        self._client.close()


class _Lock(Lock):
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self) -> int:
        if not self._lock.acquire():
            raise RuntimeError("redis-py did not acquire the lock")
        return 0

    def release(self) -> None:
        self._lock.release()


class RedisAsyncio(OnRedis, AioContestant):
    """With its defaults, but for more connections: one for each task that asks."""

    name = "redis.asyncio"
    works = frozenset({"pair", "tasks"})
    yardstick = works
    needs = ("redis",)

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self.place)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Pairs]:
    import redis.asyncio

    async with redis.asyncio.Redis.from_url(url, max_connections=CONNECTIONS) as client:

        async def pairs(name: str, count: int) -> None:
            lock = client.lock(name)
            for _ in range(count):
                if not await lock.acquire():
                    raise RuntimeError("redis.asyncio did not acquire the lock")
                await lock.release()

        yield pairs
