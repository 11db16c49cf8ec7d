"""The other process of ``fencelock bench``: it waits for a lock and prints when it acquired it.

Run as a program it reads lines: for each one it waits for the lock, prints the moment, and releases
the lock. Both processes read the same monotonic clock of one machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from ..engines import default_url
from ..errors import Unavailable

if TYPE_CHECKING:
    from ..sync import Client, Lock

QUEUED_S = 5.0  # the longest that joining the queue may take
UNSEEN_S = 0.05  # where the engine shows no queue: long enough to have joined it


class BenchPeer:
    """Our side: starts the process and tells it when to wait."""

    def __init__(self, url: str | None, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fencelock.cli.bench_peer", name],
            env={
                **os.environ,
                "FENCELOCK_URL": default_url() if url is None else url,
            },  # not where ps shows it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> BenchPeer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()

    def take_from(self, client: Client, lock: Lock) -> float:
        """Let the other process queue behind us, release, and return the seconds it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        lease = lock.acquire()
        self._process.stdin.write("wait\n")
        self._process.stdin.flush()
        _see_queued(client, lock.name)
        released = time.monotonic()
        lease.release()
        answer = self._process.stdout.readline()
        if not answer:
            raise Unavailable("the other process of the measurement has ended: see its message")
        return float(answer) - released


def _see_queued(client: Client, name: str) -> None:
    begun = time.monotonic()
    while time.monotonic() < begun + QUEUED_S:
        if client.inspect(name).waiters:
            return
        time.sleep(0.001)
        if not client.traits.fifo and time.monotonic() > begun + UNSEEN_S:
            return
    raise Unavailable("the other process of the measurement does not join the queue")


def serve(name: str) -> None:
    """The other process's side."""
    from ..sync import connect

    with connect() as client:
        lock = client.lock(name, timeout=60)
        for _ in sys.stdin:
            lease = lock.acquire()
            print(time.monotonic(), flush=True)
            lease.release()


if __name__ == "__main__":
    serve(sys.argv[1])
