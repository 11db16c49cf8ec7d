"""fasteners: locks between processes for the OpenStack family. Waits by polling."""

from __future__ import annotations

import os

from bench.contestant import Contestant, Files, Lock, Session


class Fasteners(Contestant):
    """With its defaults: a look after 10 ms, then ever later up to 100 ms."""

    name = "fasteners"
    works = frozenset({"pair", "handoff", "wakeup", "idle", "import"})
    needs = ("fasteners",)

    def connect(self, *, traced: bool = False) -> Session:
        return Files(self.place, _Lock)

    def first_use(self) -> str:
        path = os.path.join(self.place, "first")
        return f"import fasteners\nwith fasteners.InterProcessLock({path!r}):\n    pass"


class _Lock(Lock):
    def __init__(self, path: str) -> None:
        import fasteners

        self._lock = fasteners.InterProcessLock(path)

    def acquire(self) -> int:
        if not self._lock.acquire():
            raise RuntimeError("fasteners did not acquire the lock")
        return 0

    def release(self) -> None:
        self._lock.release()
