"""pottery: asks the nodes at once, from a pool of threads made for each call."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.redlock_nodes import OnNodes

TTL_S = 30.0  # by default 10 s; ours is 30 s


class Pottery(OnNodes):
    """With its defaults, but for the ttl."""

    name = "pottery"
    works = frozenset({"pair"})
    yardstick = works
    needs = ("pottery",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.urls)


class PotteryHung(Pottery):
    """One of the five does not answer."""

    name = "pottery, one hung"
    yardstick = frozenset()
    hung = True


class _Session(Session):
    def __init__(self, urls: list[str]) -> None:
        import redis

        self._masters = {redis.Redis.from_url(url, socket_timeout=1) for url in urls}

    def lock(self, name: str) -> Lock:
        return _Lock(self._masters, name)

    def close(self) -> None:
        for node in self._masters:
            node.close()


class _Lock(Lock):
    def __init__(self, masters: set[Any], name: str) -> None:
        pottery: Any = import_module("pottery")  # checks must pass where it is not installed
        self._lock = pottery.Redlock(key=name, masters=masters, auto_release_time=TTL_S)

    def acquire(self) -> int:
        if not self._lock.acquire():
            raise RuntimeError("pottery did not acquire the lock")
        return 0

    def release(self) -> None:
        self._lock.release()
