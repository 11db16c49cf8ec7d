"""A process that does as it is told: ``python -m tests.guards.workers.actor MODULE WHERE URL``.

It has a client of its own for the lock, at URL, and a counter of its own at the resource. Orders
come as JSON lines on stdin, each is answered by one on stdout. When stdin ends, so does it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

import fencelock
from tests.guards.resources import load

TTL_S = 0.6  # how long the test waits for the lock of a frozen process


class Actor:
    """One method for each order."""

    def __init__(self, module: str, where: str, url: str) -> None:
        self._counter = load(module)(where)
        self._client = fencelock.connect(url)
        self._lease: fencelock.Lease | None = None
        self._value = 0

    def begin(self, *, guarded: bool, ttl: float = TTL_S) -> int:
        """Take the lock and read the counter; the fence."""
        lease = self._lease = self._client.lock("counter", ttl=ttl, timeout=30).acquire()
        self._value = self._counter.enter(lease.fence) if guarded else self._counter.read()
        return lease.fence

    def finish(self, *, guarded: bool, freeze: bool = False) -> None:
        """Add one to what was read, and leave the lock.

        With ``freeze``, the whole process stops after its check and before its write.
        """
        assert self._lease is not None
        with self._lease as lease:
            lease.check()
            if freeze:
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread first
            if guarded:
                self._counter.write(self._value + 1, lease.fence)
            else:
                self._counter.write_bare(self._value + 1)

    def close_nowait(self) -> None:
        """Leave the lock; nothing was written."""
        if self._lease is not None:
            self._lease.release()

    def enter(self, *, fence: int, reading: bool = False) -> int:
        return self._counter.enter(fence, reading)

    def write(self, *, value: int, fence: int) -> None:
        self._counter.write(value, fence)

    def look(self) -> dict[str, int]:
        """The counter and its mark."""
        return {"value": self._counter.read(), "mark": self._counter.mark()}


def obey(actor: Actor, order: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": getattr(actor, order)(**arguments)}
    except fencelock.StaleFence as stale:
        return {"stale": {"offered": stale.offered, "highest": stale.highest}}
    except fencelock.LeaseLost as lost:
        return {"lost": str(lost)}


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def serve() -> None:
    actor = Actor(*sys.argv[1:])
    say({"value": "ready"})
    for line in sys.stdin:
        message = json.loads(line)
        say(obey(actor, message.pop("order"), message))
    os._exit(0)  # as suddenly as by a kill: nothing here is worth a farewell


if __name__ == "__main__":
    serve()
