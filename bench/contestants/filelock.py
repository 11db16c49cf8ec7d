"""filelock: the lock file most projects use. Waits by polling."""

from __future__ import annotations

import os

from bench.contestant import Contestant, Files, Lock, Session


class Filelock(Contestant):
    """With its defaults: a look every 50 ms."""

    name = "filelock"
    works = frozenset({"pair", "handoff", "wakeup", "idle", "import"})
    yardstick = frozenset({"pair", "handoff", "wakeup"})
    needs = ("filelock",)

    def connect(self, *, traced: bool = False) -> Session:
        return Files(self.place, _Lock)

    def first_use(self) -> str:
        path = os.path.join(self.place, "first")
        return f"import filelock\nwith filelock.FileLock({path!r}):\n    pass"


class _Lock(Lock):
    def __init__(self, path: str) -> None:
        import filelock

        self._lock = filelock.FileLock(path)

    def acquire(self) -> int:
        self._lock.acquire()
        return 0

    def release(self) -> None:
        self._lock.release()
