"""The etcd3 package. It needs a protobuf of its time: `pip install etcd3 "protobuf<4"`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.etcd_server import OnEtcd

TTL_S = 60  # its default


class Etcd3(OnEtcd):
    """Its own lock: a lease for each try, and a key for each name."""

    name = "etcd3"
    works = frozenset({"pair", "handoff", "wakeup", "import"})
    needs = ("etcd3",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)

    def first_use(self) -> str:
        host, _, port = self.place.rpartition(":")
        return f"""
import etcd3
with etcd3.client({host!r}, {port}).lock("first", ttl={TTL_S}):
    pass
"""


class _Session(Session):
    def __init__(self, address: str) -> None:
        etcd3: Any = import_module("etcd3")  # it has no types
        host, _, port = address.rpartition(":")
        self._client = etcd3.client(host, int(port))

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
