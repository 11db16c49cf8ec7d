"""The etcd-sdk-python package: the lock of etcd3, kept alive for the protobuf of today.

etcd3 itself, which it descends from, no longer imports: its generated code wants a protobuf of
before 4 ("Descriptors cannot be created directly"). aetcd works too, for asyncio alone, with the
same recipe and about the same figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.etcd_server import OnEtcd

TTL_S = 60  # its default


class EtcdSdk(OnEtcd):
    """Its own lock: a lease for each try, and a key for each name; all who wait try at once."""

    name = "etcd-sdk-python"
    works = frozenset({"pair", "handoff", "wakeup", "import"})
    needs = ("pyetcd", "google")  # the latter is protobuf

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)

    def import_line(self) -> str:
        return "import pyetcd"

    def first_use(self) -> str:
        host, _, port = self.place.rpartition(":")
        return f"""
import pyetcd
with pyetcd.client({host!r}, {port}).lock("first", ttl={TTL_S}):
    pass
"""


class _Session(Session):
    def __init__(self, address: str) -> None:
        pyetcd: Any = import_module("pyetcd")  # it has no types
        host, _, port = address.rpartition(":")
        self._client = pyetcd.client(host, int(port))

    def lock(self, name: str) -> Lock:
        return _Lock(self._client.lock(name, ttl=TTL_S))

    def close(self) -> None:
        self._client.close()


class _Lock(Lock):
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self) -> int:
        if not self._lock.acquire(timeout=None):
            raise RuntimeError("it was not acquired though nobody said for how long to wait")
        return 0

    def release(self) -> None:
        self._lock.release()
