"""python-redis-lock: waiters block on a list that the holder pushes to when it leaves."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.redis_server import OnRedis

CONNECTIONS = 1000  # redis-py's default refuses the 101st


class PythonRedisLock(OnRedis):
    """With its defaults: no ttl, no renewal.

    The client that it is given has more connections than by default, one for each waiter, and no
    limit to how long it waits for an answer, because that is how it waits for the lock.
    """

    name = "python-redis-lock"
    works = frozenset({"pair", "threads", "handoff", "wakeup", "idle", "import"})
    yardstick = frozenset({"handoff", "wakeup"})
    needs = ("redis_lock",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)

    def first_use(self) -> str:
        return f"""
import redis, redis_lock
with redis.Redis.from_url({self.place!r}) as client:
    with redis_lock.Lock(client, "first"):
        pass
"""


class _Session(Session):
    def __init__(self, url: str) -> None:
        import redis

        self._client = redis.Redis.from_url(url, max_connections=CONNECTIONS, socket_timeout=None)

    def lock(self, name: str) -> Lock:
        return _Lock(self._client, name)

    def close(self) -> None:
        self._client.close()


class _Lock(Lock):
    def __init__(self, client: Any, name: str) -> None:
        redis_lock: Any = import_module("redis_lock")  # checks must pass where it is not installed
        self._lock = redis_lock.Lock(client, name)

    def acquire(self) -> int:
        if not self._lock.acquire():
            raise RuntimeError("python-redis-lock did not acquire the lock")
        return 0

    def release(self) -> None:
        self._lock.release()
