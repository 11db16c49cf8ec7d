"""pals: advisory locks of PostgreSQL, through SQLAlchemy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.postgresql_server import OnPostgresql


class Pals(OnPostgresql):
    """As its page shows it; only its longest wait is made long enough for eight processes."""

    name = "pals"
    works = frozenset({"pair", "handoff", "wakeup"})
    yardstick = frozenset({"handoff"})
    needs = ("pals", "sqlalchemy", "psycopg")

    def connect(self, *, traced: bool = False) -> Session:
        pals: Any = import_module("pals")  # it has no types
        place = self.place.replace("postgresql:", "postgresql+psycopg:")
        return _Session(pals.Locker("bench", place))


class _Session(Session):
    def __init__(self, locker: Any) -> None:
        self._locker = locker

    def lock(self, name: str) -> Lock:
        return _Lock(self._locker.lock(name, acquire_timeout=60_000))


class _Lock(Lock):
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self) -> int:
        if not self._lock.acquire():
            raise TimeoutError("pals did not get the lock")
        return 0

    def release(self) -> None:
        self._lock.release()
