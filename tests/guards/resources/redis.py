"""A counter in Redis, guarded by scripts."""

from __future__ import annotations

import json
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fencelock.guards.redis import RedisGuard
from tests.servers.redis import Redis
from tests.servers.shared import shared

KEY = "value"
NAME = "counter"
READ = "return redis.call('GET', KEYS[1]) or 0"


class Counter:
    """One key."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        return json.dumps({"url": shared(Redis).fresh_url()})

    def __init__(self, where: str) -> None:
        self._redis = redis.Redis.from_url(
            json.loads(where)["url"], retry=Retry(NoBackoff(), 0), socket_timeout=30
        )
        self._guard = RedisGuard(self._redis)

    def enter(self, fence: int, reading: bool = False) -> int:
        return int(self._guard.eval(READ, [KEY], [], fence, name=NAME, reading=reading))

    def write(self, value: int, fence: int) -> None:
        self._guard.set(KEY, value, fence, name=NAME)

    def read(self) -> int:
        return int(self._redis.get(KEY) or 0)

    def write_bare(self, value: int) -> None:
        self._redis.set(KEY, value)

    def mark(self, reading: bool = False) -> int:
        return self._guard.mark(NAME, reading=reading)

    def close(self) -> None:
        self._redis.close()
