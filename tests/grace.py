"""Longer limits for engines that answer late because the machine stands still.

A call ends three quarters of a second after its caller's deadline (``world.GRACE_S``), answered or
not, and a request of an engine is given up after five. A busy machine may keep a server from
running for longer than that, and a test that never meant to be late would learn that nobody knows.
Tests of what happens then keep the real limits.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from fencelock._client import acquire, attempt_all, client, lease_lifecycle, pending
from fencelock.recipes import barrier, board, latch, once, several
from fencelock.worlds import aio_shield

if TYPE_CHECKING:  # workers use this too, and should not take long to start
    import pytest

GRACE_S = 3.0
REQUEST_TIMEOUT_S = 20.0
FOLDERS = (
    "conformance/",
    "engines/",
    "faults/",
    "guards/",
    "recipes/",
    "service/",
    "telemetry/",
    "unit/test_foreign_words.py",
)
"""Where tests use real servers."""
USERS: tuple[ModuleType, ...] = (
    acquire,
    aio_shield,
    attempt_all,
    barrier,
    board,
    client,
    latch,
    lease_lifecycle,
    once,
    pending,
    several,
)


TIMED = {
    "consul": "settings",
    "dynamodb": "settings",
    "etcd": "cluster",
    "firestore": "settings",
    "hazelcast": "settings",
    "http": "settings",
    "mysql": "settings",
    "postgresql": "settings",
    "redis": "settings",
    "spanner": "settings",
    "sqlite": "engine",
}
"""Which module of an engine has the defaults of ``request_timeout`` and ``connect_timeout``."""
ALIASES = {"valkey": "redis", "mariadb": "mysql", "https": "http"}


def lengthen_grace(
    patch: Callable[[object, str, object], None] = setattr,
    seconds: float = GRACE_S,
    scheme: str = "",
) -> None:
    """Give engines this much time in this process, which may use the one of a scheme only."""
    for user in USERS:
        patch(user, "GRACE_S", seconds)
    if not scheme or scheme.startswith(("redis", "valkey")):
        patch(import_module("fencelock.engines.redis.engine"), "GRACE_S", seconds)
    if not scheme or scheme.startswith("zookeeper"):  # of a short session
        connection = import_module("fencelock.engines.zookeeper.wire.connection")
        patch(connection, "REQUEST_TIMEOUT_MIN_S", GRACE_S)
    wanted = ALIASES.get(scheme.partition("+")[0], scheme.partition("+")[0])
    for engine, module in TIMED.items():
        if wanted in ("", engine, engine + "s"):
            found = import_module(f"fencelock.engines.{engine}.{module}")
            patch(found, "REQUEST_TIMEOUT_S", REQUEST_TIMEOUT_S)
            if hasattr(found, "CONNECT_TIMEOUT_S"):
                patch(found, "CONNECT_TIMEOUT_S", REQUEST_TIMEOUT_S)
    if wanted in ("", "postgresql"):  # who holds is written by another process
        table = import_module("fencelock.engines.postgresql.holder_table")
        patch(table, "WAIT_S", REQUEST_TIMEOUT_S)


def concerns_it(item: pytest.Item) -> bool:
    """Whether a test is about the grace itself, or uses no real server."""
    if not item.nodeid.removeprefix("tests/").startswith(FOLDERS):
        return True
    callspec = getattr(item, "callspec", None)
    check = callspec.params.get("check") if callspec is not None else None
    about_it = getattr(getattr(check, "body", None), "__module__", "").endswith(".silence")
    module = getattr(item, "module", None)
    named = getattr(module, "__name__", "").endswith("test_deadlines")
    return about_it or named or hasattr(module, "GRACE_S")
