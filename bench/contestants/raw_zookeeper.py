"""The floor for ZooKeeper: one create, one look and one delete, by kazoo's client.

No fence, no queue, no renewal and no errors handled.
"""

from __future__ import annotations

from typing import Any

from bench.contestant import Lock, Session
from bench.zookeeper_server import ROOT, KazooSession, OnZookeeper


class RawZookeeper(OnZookeeper):
    """What no lock of this recipe can do without."""

    name = "raw zookeeper"
    needs = ("kazoo",)
    works = frozenset({"pair"})
    yardstick = frozenset({"pair"})

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)


class _Session(KazooSession):
    def lock(self, name: str) -> Lock:
        self.client.ensure_path(f"{ROOT}/{name}")
        return _Lock(self.client, f"{ROOT}/{name}")


class _Lock(Lock):
    def __init__(self, client: Any, folder: str) -> None:
        self._client = client
        self._folder = folder
        self._node = ""

    def acquire(self) -> int:
        prefix = f"{self._folder}/raw-"
        self._node = self._client.create(prefix, b"", ephemeral=True, sequence=True)
        self._client.get_children(self._folder)
        return 0

    def release(self) -> None:
        self._client.delete(self._node)
