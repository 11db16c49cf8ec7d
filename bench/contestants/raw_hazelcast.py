"""The floor for Hazelcast: the FencedLock of its own client, from threads."""

from __future__ import annotations

from typing import Any

from bench.contestant import Lock, Session
from bench.hazelcast_server import OnHazelcast


class RawHazelcast(OnHazelcast):
    """One lock and one unlock, each a request, by the calling thread."""

    name = "hazelcast FencedLock"
    needs = ("hazelcast",)
    works = frozenset({"pair", "handoff", "wakeup"})
    yardstick = frozenset({"pair", "handoff", "wakeup"})

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)


class _Session(Session):
    def __init__(self, place: str) -> None:
        from hazelcast.client import HazelcastClient

        members, _, cluster = place.partition("/")
        make: Any = HazelcastClient
        self._client = make(cluster_name=cluster, cluster_members=members.split(","))

    def lock(self, name: str) -> Lock:
        return _Lock(self._client.cp_subsystem.get_lock(name).blocking())

    def close(self) -> None:
        self._client.shutdown()


class _Lock(Lock):
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self) -> int:
        return int(self._lock.lock())

    def release(self) -> None:
        self._lock.unlock()
