"""``fencelock bench [URL]``: how fast locks are here, from this machine."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from ...engines import default_url
from ...errors import Unavailable
from .. import codes, terminal
from ..options import connected, number_of, url_of

if TYPE_CHECKING:
    from ...sync import Client, Lock


TTL_S = 30.0


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("engine_url", metavar="URL", nargs="?", help="the engine to measure")
    add(
        "--count",
        metavar="N",
        type=number_of(2, 10**6),
        default=500,
        help="locks to measure (default 500)",
    )
    add(
        "--handoffs",
        metavar="N",
        type=number_of(0, 10**4),
        default=50,
        help="hand-offs to measure (default 50)",
    )


def main(options: argparse.Namespace) -> int:
    """Measure acquire and release, and the hand-off of a lock to another process."""
    with connected(options) as client:
        pair = _figures(_pairs(client, options))
        across = options.handoffs and client.traits.scope != "process"
        handoff = _figures(_handoffs(client, url_of(options), options.handoffs)) if across else None
    if options.json:
        terminal.emit({"url": client.url, "pair_us": pair, "handoff_us": handoff})
    else:
        lines = [client.url, _row("acquire + release", pair)]
        lines += [_row("hand-off to a process", handoff)] if handoff else []
        terminal.lines([terminal.fitting(line) for line in lines])
    return codes.OK


def _pairs(client: Client, options: argparse.Namespace) -> list[float]:
    """Return the seconds of each acquire and release of a free lock."""
    lock = client.lock(f"fencelock-bench-{os.getpid()}", ttl=TTL_S, timeout=10)
    lock.acquire().release()
    spent: list[float] = []
    for _ in range(options.count):
        begun = time.perf_counter()
        lock.acquire().release()
        spent.append(time.perf_counter() - begun)
    return spent


def _handoffs(client: Client, url: str | None, count: int) -> list[float]:
    """Return the seconds from each release of ours to the return of another process's acquire."""
    name = f"fencelock-bench-handoff-{os.getpid()}"
    lock = client.lock(name, ttl=TTL_S, timeout=30)
    with BenchPeer(url, name) as peer:
        return [peer.take_from(client, lock) for _ in range(count)]


def _figures(spent: list[float]) -> dict[str, float]:
    """Compute the median and the 99th percentile, in microseconds."""
    ordered = sorted(spent)
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "median": round(ordered[last // 2] * 1e6, 1),
        "p99": round(ordered[min(last, len(ordered) * 99 // 100)] * 1e6, 1),
    }


def _row(title: str, figures: dict[str, float]) -> str:
    return f"  {title:<22} median {figures['median']:>9} µs   p99 {figures['p99']:>9} µs"


QUEUED_S = 5.0  # the longest that joining the queue may take
UNSEEN_S = 0.05  # where the engine shows no queue: long enough to have joined it


class BenchPeer:
    """The other process of the measurement: started here, and told when to wait for the lock."""

    def __init__(self, url: str | None, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fencelock.cli.verbs.bench", name],
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
        """Let the other process queue behind us, release, and return the hand-off's seconds."""
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
    """Wait for the lock once for each line of stdin, print when it was acquired, and release it.

    Both processes read the same monotonic clock of one machine.
    """
    from ...sync import connect

    with connect() as client:
        lock = client.lock(name, timeout=60)
        for _ in sys.stdin:
            lease = lock.acquire()
            print(time.monotonic(), flush=True)
            lease.release()


if __name__ == "__main__":
    serve(sys.argv[1])
