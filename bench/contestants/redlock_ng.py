"""redlock-ng: asks the nodes one after the other."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.redlock_nodes import OnNodes

TTL_MS = 30_000  # it has no default; ours is 30 s


class RedlockNg(OnNodes):
    """With its defaults: 0.1 s for each node."""

    name = "redlock-ng"
    works = frozenset({"pair"})
    yardstick = works
    needs = ("redlock.algorithm",)

    @classmethod
    def missing(cls) -> str:
        try:  # another package installs a module of the same name
            return super().missing()
        except ModuleNotFoundError:
            return "not installed: redlock-ng"

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.urls)


class RedlockNgHung(RedlockNg):
    """One of the five does not answer."""

    name = "redlock-ng, one hung"
    yardstick = frozenset()
    hung = True


class _Session(Session):
    def __init__(self, urls: list[str]) -> None:
        redlock: Any = import_module("redlock")  # checks must pass where it is not installed
        self._client = redlock.Redlock(urls)

    def lock(self, name: str) -> Lock:
        return _Lock(self._client, name)

    def close(self) -> None:
        for node in self._client.client.instances:
            node.close()


class _Lock(Lock):
    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def acquire(self) -> int:
        self._held = self._client.acquire(self._name, TTL_MS)
        if self._held is None:
            raise RuntimeError("redlock-ng did not acquire the lock")
        return 0

    def release(self) -> None:
        self._client.release(self._held)
