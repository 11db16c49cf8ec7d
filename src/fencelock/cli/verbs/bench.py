"""``fencelock bench [URL]``: how fast locks are here, from this machine."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from .. import codes, terminal
from ..options import connected, number_of, url_of

if TYPE_CHECKING:
    from ...sync import Client

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
    """Seconds of each acquire and release of a free lock."""
    lock = client.lock(f"fencelock-bench-{os.getpid()}", ttl=TTL_S, timeout=10)
    lock.acquire().release()
    spent: list[float] = []
    for _ in range(options.count):
        begun = time.perf_counter()
        lock.acquire().release()
        spent.append(time.perf_counter() - begun)
    return spent


def _handoffs(client: Client, url: str | None, count: int) -> list[float]:
    """Seconds from our release to the return of another process's acquire."""
    from ..bench_peer import BenchPeer

    name = f"fencelock-bench-handoff-{os.getpid()}"
    lock = client.lock(name, ttl=TTL_S, timeout=30)
    with BenchPeer(url, name) as peer:
        return [peer.take_from(client, lock) for _ in range(count)]


def _figures(spent: list[float]) -> dict[str, float]:
    """Median and 99th percentile, in microseconds."""
    ordered = sorted(spent)
    last = len(ordered) - 1
    return {
        "count": len(ordered),
        "median": round(ordered[last // 2] * 1e6, 1),
        "p99": round(ordered[min(last, len(ordered) * 99 // 100)] * 1e6, 1),
    }


def _row(title: str, figures: dict[str, float]) -> str:
    return f"  {title:<22} median {figures['median']:>9} µs   p99 {figures['p99']:>9} µs"
