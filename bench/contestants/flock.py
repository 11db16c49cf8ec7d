"""The floor of the system: flock(2) on a file that stays open.

No lease and no fence, but the kernel wakes the waiter.
"""

from __future__ import annotations

import os

from bench.contestant import Contestant, Files, Lock, Session


class Flock(Contestant):
    """Blocks in the kernel."""

    name = "raw flock"
    works = frozenset({"pair", "handoff", "wakeup", "idle"})
    yardstick = frozenset({"wakeup"})
    needs = ("fcntl",)

    def connect(self, *, traced: bool = False) -> Session:
        return Files(self.place, _Lock)


class _Lock(Lock):
    def __init__(self, path: str) -> None:
        import fcntl

        self._flock = fcntl.flock
        self._take, self._leave = fcntl.LOCK_EX, fcntl.LOCK_UN
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def acquire(self) -> int:
        self._flock(self._file, self._take)
        return 0

    def release(self) -> None:
        self._flock(self._file, self._leave)

    def __del__(self) -> None:
        os.close(self._file)
