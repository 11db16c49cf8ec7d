"""A semaphore over Redis as the books have it: a sorted set of holders by the time they came."""

from __future__ import annotations

import time
import uuid
from typing import Any

from bench.contestant import Lock, Session
from bench.redis_server import OnRedis

TTL_S = 30.0
LOOK_S = 0.01


class RedisSemaphore(OnRedis):
    """By hand, with redis-py: the client's clock, no queue, no fence, no renewal."""

    name = "sorted set by hand"
    works = frozenset({"sharing"})
    yardstick = works
    needs = ("redis",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)


class _Session(Session):
    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url)

    def lock(self, name: str) -> Lock:
        return _Slot(self._client, name, 1)

    def semaphore(self, name: str, limit: int) -> Lock:
        return _Slot(self._client, name, limit)

    def close(self) -> None:
        self._client.close()


class _Slot(Lock):
    def __init__(self, client: Any, name: str, limit: int) -> None:
        self._client = client
        self._name = name
        self._limit = limit
        self._owner = ""

    def acquire(self) -> int:
        self._owner = uuid.uuid4().hex
        while not self._try():
            time.sleep(LOOK_S)
        return 0

    def _try(self) -> bool:
        now = time.time()
        pipeline = self._client.pipeline()
        pipeline.zremrangebyscore(self._name, "-inf", now - TTL_S)
        pipeline.zadd(self._name, {self._owner: now})
        pipeline.zrank(self._name, self._owner)
        if pipeline.execute()[-1] < self._limit:
            return True
        self._client.zrem(self._name, self._owner)
        return False

    def release(self) -> None:
        self._client.zrem(self._name, self._owner)
