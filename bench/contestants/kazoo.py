"""kazoo's own Lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.contestant import Lock, Session
from bench.zookeeper_server import ROOT, KazooSession, OnZookeeper


class Kazoo(OnZookeeper):
    """A Lock for each turn: once it was lost, one cannot be used again."""

    name = "kazoo"
    needs = ("kazoo",)
    works = frozenset({"pair", "handoff", "wakeup", "idle", "import", "sharing", "election"})
    yardstick = frozenset({"pair", "handoff", "wakeup", "sharing", "election"})

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)

    def import_line(self) -> str:
        return "from kazoo.client import KazooClient"

    def first_use(self) -> str:
        return f"""
from kazoo.client import KazooClient
client = KazooClient(hosts={self.place!r})
client.start()
with client.Lock("{ROOT}/first"):
    pass
client.stop()
"""


class _Session(KazooSession):
    def lock(self, name: str) -> Lock:
        return _Lock(partial(self.client.Lock, f"{ROOT}/{name}"))

    def semaphore(self, name: str, limit: int) -> Lock:
        return _Lock(partial(self.client.Semaphore, f"{ROOT}/{name}", max_leases=limit))

    def reader(self, name: str) -> Lock:
        return _Lock(partial(self.client.ReadLock, f"{ROOT}/{name}"))

    def writer(self, name: str) -> Lock:
        return _Lock(partial(self.client.WriteLock, f"{ROOT}/{name}"))

    def candidate(self, name: str, ttl: float) -> Lock:
        election = self.client.Election(f"{ROOT}/{name}")
        return _Lock(lambda: election.lock)  # what its run() acquires and releases


class _Lock(Lock):
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock: Any = None

    def acquire(self) -> int:
        self._lock = self._make()
        self._lock.acquire()
        return 0

    def release(self) -> None:
        self._lock.release()
