"""kazoo's own Lock."""

from __future__ import annotations

from typing import Any

from bench.contestant import Lock, Session
from bench.zookeeper_server import ROOT, KazooSession, OnZookeeper


class Kazoo(OnZookeeper):
    """A Lock for each turn: once it was lost, one cannot be used again."""

    name = "kazoo"
    needs = ("kazoo",)
    works = frozenset({"pair", "handoff", "wakeup", "idle", "import"})
    yardstick = frozenset({"pair", "handoff", "wakeup"})

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
        return _Lock(self.client, f"{ROOT}/{name}")


class _Lock(Lock):
    def __init__(self, client: Any, folder: str) -> None:
        self._client = client
        self._folder = folder
        self._lock: Any = None

    def acquire(self) -> int:
        self._lock = self._client.Lock(self._folder)
        self._lock.acquire()
        return 0

    def release(self) -> None:
        self._lock.release()
