"""The backends of runs, by their names."""

from __future__ import annotations

from fencelock.sim.backends import Backend
from fencelock.sim.store import StoreBackend
from tests.sim.redis_backends import RedisBackend, RedlockBackend

BACKENDS: dict[str, type[Backend]] = {
    "store": StoreBackend,
    "redis": RedisBackend,
    "redlock": RedlockBackend,
}
SHARED = ("store", "redis")
"""Those over which all recipes are played: Redlock has one holder of a name, and no memory."""
