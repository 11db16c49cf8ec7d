"""portalocker: file locks on many systems. Waits by polling."""

from __future__ import annotations

import os

from bench.contestant import Contestant, Files, Lock, Session

TIMEOUT_S = 600.0  # its default gives up after 5 s


class Portalocker(Contestant):
    """With its defaults, except that it waits for as long as the others."""

    name = "portalocker"
    works = frozenset({"pair", "handoff", "wakeup", "idle", "import"})
    needs = ("portalocker",)

    def connect(self, *, traced: bool = False) -> Session:
        return Files(self.place, _Lock)

    def first_use(self) -> str:
        path = os.path.join(self.place, "first")
        return f"import portalocker\nwith portalocker.Lock({path!r}):\n    pass"


class _Lock(Lock):
    def __init__(self, path: str) -> None:
        import portalocker

        self._lock = portalocker.Lock(path, timeout=TIMEOUT_S)

    def acquire(self) -> int:
        self._lock.acquire()
        return 0

    def release(self) -> None:
        self._lock.release()
