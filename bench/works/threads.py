"""Many threads of one process, each with a lock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant, Lock, Session, Spent
from bench.work import Column, Work

THREADS = 32
DEADLINE_S = 60.0


class Threads(Work):
    """Batches in which all threads run until the last has done its pairs; the median counts."""

    name = "threads"
    title = f"{THREADS} threads of one process, each takes and leaves a free lock of its own"
    columns = (
        Column("pairs", "pairs/s"),
        Column("cpu_us", "CPU µs/pair"),
        Column("connections", "connections", worst=True),
    )
    rounds = 7

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        batches, count = (1, 5) if quick else (5, 50)
        with contestant.connect() as session, contestant.gauge() as gauge:
            spent = _time(session, batches + 1, count)[1:]  # the first connects
            served = gauge.look()
        pairs = THREADS * count
        figures = {
            "pairs": pairs / median(batch.wall for batch in spent),
            "cpu_us": median(batch.cpu for batch in spent) / pairs * 1e6,
        }
        if served is not None:
            figures["connections"] = served.connections
        return figures


def _time(session: Session, batches: int, count: int) -> list[Spent]:
    """Run all threads at once, batch by batch."""
    gate = threading.Barrier(THREADS + 1)

    def work(lock: Lock) -> None:
        for _ in range(batches):
            gate.wait(DEADLINE_S)
            for _ in range(count):
                lock.acquire()
                lock.release()
            gate.wait(DEADLINE_S)

    def run(lock: Lock) -> None:
        try:
            work(lock)
        except BaseException:
            gate.abort()  # nobody may wait for one that is gone
            raise

    locks = [session.lock(f"thread:{number}") for number in range(THREADS)]
    threads = [threading.Thread(target=run, args=(lock,), daemon=True) for lock in locks]
    for thread in threads:
        thread.start()
    spent: list[Spent] = []
    for _ in range(batches):
        gate.wait(DEADLINE_S)
        cpu, wall = time.process_time(), time.perf_counter()
        gate.wait(DEADLINE_S)
        spent.append(Spent(time.perf_counter() - wall, time.process_time() - cpu))
    for thread in threads:
        thread.join(DEADLINE_S)
    return spent
