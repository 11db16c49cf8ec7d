"""The cost of a lock that several can hold, beside that of one that one can hold.

All are measured in turn within each round, over the same connection, so that their ratio is that of
the recipes and not of a busy moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from statistics import median
from time import perf_counter

from bench.contestant import Contestant, Lock, Session
from bench.work import Column, Work

LIMIT = 8
CROWD = 64


class Sharing(Work):
    """Pairs of each kind; the median batch counts."""

    name = "sharing"
    title = f"acquire and release: a slot of {LIMIT}, a reader, a writer, a reader beside {CROWD}"
    columns = (
        Column("semaphore_us", "slot µs"),
        Column("read_us", "read µs"),
        Column("write_us", "write µs"),
        Column("crowd_us", f"read beside {CROWD} µs"),
        Column("mutex_us", "mutex µs"),
        Column("semaphore_x", "slot x mutex"),
        Column("read_x", "read x mutex"),
        Column("write_x", "write x mutex"),
        Column("crowd_x", f"beside {CROWD} x alone"),
    )
    rounds = 7

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        batches, count = (3, 10) if quick else (12, 100)
        with contestant.connect() as session, ExitStack() as stack:
            locks = _alone(session)
            if "read" in locks:
                for _ in range(CROWD):
                    reader = session.reader("crowd")
                    reader.acquire()
                    stack.callback(reader.release)
                locks["crowd"] = session.reader("crowd")
            return _named(_take_turns(locks, batches, count))


def _alone(session: Session) -> dict[str, Lock]:
    found = {
        "mutex": session.lock("mutex"),
        "semaphore": session.semaphore("semaphore", LIMIT),
        "read": _made(session, "reader", "readers"),
        "write": _made(session, "writer", "writers"),
    }
    return {kind: lock for kind, lock in found.items() if lock is not None}


def _made(session: Session, kind: str, name: str) -> Lock | None:
    """A kind of lock, or None where the contestant has none."""
    try:
        lock: Lock = getattr(session, kind)(name)
    except NotImplementedError:
        return None
    return lock


def _take_turns(locks: Mapping[str, Lock], batches: int, count: int) -> dict[str, float]:
    """Microseconds of a pair of each; a first batch warms up."""
    spent: dict[str, list[float]] = {kind: [] for kind in locks}
    for _ in range(batches + 1):
        for kind, lock in locks.items():
            begun = perf_counter()
            for _ in range(count):
                lock.acquire()
                lock.release()
            spent[kind].append(perf_counter() - begun)
    return {kind: median(times[1:]) / count * 1e6 for kind, times in spent.items()}


def _named(figures: Mapping[str, float]) -> dict[str, float]:
    named = {f"{kind}_us": figure for kind, figure in figures.items()}
    for kind in ("semaphore", "read", "write"):
        if kind in figures:
            named[f"{kind}_x"] = figures[kind] / figures["mutex"]
    if "crowd" in figures:
        named["crowd_x"] = figures["crowd"] / figures["read"]
    return named
