"""The guard of keys in Redis: the check runs in the same script as the write.

``RedisGuard`` takes a client of redis-py, ``AsyncRedisGuard`` one of ``redis.asyncio``. One round
trip each, and all of it happens in one step or not at all.
"""

from __future__ import annotations

from .guard import RedisGuard
from .guard_aio import AsyncRedisGuard

__all__ = ["AsyncRedisGuard", "RedisGuard"]
