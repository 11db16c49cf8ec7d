"""The guard of keys in Redis: the check runs in the same script as the write.

``RedisGuard`` takes a client of redis-py, ``AsyncRedisGuard`` one of ``redis.asyncio``. Each
operation is one round trip, and atomic.
"""

from __future__ import annotations

from .guard import RedisGuard
from .guard_aio import AsyncRedisGuard

__all__ = ["AsyncRedisGuard", "RedisGuard"]
