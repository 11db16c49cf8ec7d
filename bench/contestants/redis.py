"""Fencelock over Redis."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.ours import RECIPE_TARGETS, RECIPES, Ours, OursAio
from bench.redis_server import OnRedis

WAITING = {
    "idle": (
        Target("requests", "at most", 1.0),
        Target("listening", "at most", 1.0),
    ),
    "renewals": (
        Target("requests", "at most", 20.0),
        Target("resident_mb", "at most", 6.0),
        Target("cpu_9", "at most", 3.0),
        Target("lost", "at most", 0.0),
    ),
}
TURNS = (
    Target("requests", "at most", 3.0),
    Target("overtaking", "at most", 0.0),
    Target("overlaps", "at most", 0.0),
)


class RedisThreads(OnRedis, Ours):
    """From threads."""

    name = "fencelock redis"
    works = RECIPES | {"pair", "threads", "handoff", "wakeup", "idle", "renewals", "import"}
    needs = ("redis", "hiredis")
    only_scripts = True
    targets: ClassVar = {
        "pair": (
            Target("wall_us", "at most", 1.6, "raw redis"),
            Target("wall_us", "at most", 1 / 1.8, "redis-py"),
        ),
        "threads": (Target("pairs", "at least", 2.5, "redis-py"),),
        "handoff": (Target("handoffs", "at least", 2.5, "python-redis-lock"), *TURNS),
        **WAITING,
        **RECIPE_TARGETS,
    }

    def url(self) -> str:
        return self.place


class RedisAio(OnRedis, OursAio):
    """From asyncio."""

    name = "fencelock redis asyncio"
    works = frozenset({"pair", "tasks", "handoff", "wakeup", "idle", "renewals", "import"})
    needs = RedisThreads.needs
    only_scripts = True
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1 / 2, "redis.asyncio"),),
        "tasks": (
            Target("pairs", "at least", 8.0, "redis.asyncio"),
            Target("connections", "at most", 1.0),
        ),
        "handoff": TURNS,
        **WAITING,
    }

    def url(self) -> str:
        return self.place
