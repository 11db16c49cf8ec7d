"""One process of the demo: sells seats to its customers, one after the other, under the lock.

``sell_seat`` is the part to read, and ``SeatStore`` is the resource.  The code around them reports
to the parent what happens, one line of JSON each, and waits for a line where the parent decides.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import fencelock
from fencelock.guards.sql import SqlGuard

LOCK, TTL_S = "seatmap", 2.0
BUSY_S = 5.0  # how long to wait while another process has the file
SCHEMA = """
CREATE TABLE seats (number INTEGER PRIMARY KEY, seat TEXT NOT NULL, customer TEXT);
CREATE TABLE sales (id INTEGER PRIMARY KEY, seat, customer, worker, fence);
CREATE TABLE refusals (id INTEGER PRIMARY KEY, seat, customer, worker, fence);
"""


class SeatStore:
    """A seat map in a file.  ``unsafe`` leaves the check of the fence out.

    A lock alone cannot keep a process that was asleep from writing late.  The resource can: its
    guard refuses a fence below the highest that it has seen, in the transaction of the operation.
    Reading counts too: the first look of the new holder shuts the old one out.  Like a file, a
    bucket or a printer, this store overwrites what was there: only the fence protects a seat.
    """

    def __init__(self, path: Path, worker: str, *, unsafe: bool = False) -> None:
        self._worker = worker
        self._guard = None if unsafe else SqlGuard()
        self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        self.close = self._db.close

    @contextmanager
    def _transaction(self, fence: int) -> Generator[sqlite3.Connection, None, None]:
        with self._db:  # commits, or rolls back if anything is raised
            self._db.execute("BEGIN IMMEDIATE")
            if self._guard is not None:
                self._guard.enter(self._db, fence, LOCK)
            yield self._db

    def find_free(self, fence: int) -> str | None:
        """Return the first free seat, or None when all are sold."""
        with self._transaction(fence) as db:
            free = "SELECT seat FROM seats WHERE customer IS NULL ORDER BY number LIMIT 1"
            row = db.execute(free).fetchone()
        return None if row is None else str(row[0])

    def sell(self, seat: str, customer: str, fence: int) -> None:
        """Write the customer's name on the seat, unless the fence is stale."""
        sale = (seat, customer, self._worker, fence)
        try:
            with self._transaction(fence) as db:
                db.execute("UPDATE seats SET customer = ? WHERE seat = ?", (customer, seat))
                db.execute("INSERT INTO sales VALUES (NULL, ?, ?, ?, ?)", sale)
        except fencelock.StaleFence:
            self._db.execute("INSERT INTO refusals VALUES (NULL, ?, ?, ?, ?)", sale)
            raise


def create(path: Path, seats: int) -> None:
    """Make the file of a store, with all seats free: 1A, 1B, 1C, 1D, 2A and so on."""
    names = [(f"{number // 4 + 1}{'ABCD'[number % 4]}",) for number in range(seats)]
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        SqlGuard().create(db)
        db.executemany("INSERT INTO seats VALUES (NULL, ?, NULL)", names)


Outcome = Literal["sold", "not sold", "none left"]


def sell_seat(lock: fencelock.Lock, store: SeatStore, customer: str) -> Outcome:
    """Sell the first free seat to a customer, if there is one and our lease lasts."""
    outcome: Outcome = "not sold"
    seat: str | None = None
    lease = lock.acquire()
    try:
        with lease:
            seat = store.find_free(lease.fence)
            if seat is None:
                return "none left"
            lease.check()  # the lease is ours: but what if we are stopped right here?
            tell("read", seat=seat, customer=customer, fence=lease.fence)
            wait_for_parent()
            store.sell(seat, customer, lease.fence)
            outcome = "sold"
            tell("sold", seat=seat, customer=customer, fence=lease.fence)
    except fencelock.StaleFence as stale:
        tell("refused", fence=stale.offered, highest=stale.highest)
    except fencelock.LeaseLost:
        pass  # reported below: it is lost as well when the store was the first to say so
    if lease.lost:
        tell("lost", fence=lease.fence, reason=lease.reason or "")
    return outcome


def tell(what: str, **facts: object) -> None:
    """Write one line to the parent, in one piece: all workers share the pipe."""
    line = json.dumps({"worker": sys.argv[1], "what": what, **facts}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def wait_for_parent() -> None:
    """Wait for a line from the parent; end if the parent is gone."""
    if not sys.stdin.readline():
        sys.exit(0)


def end_with_parent() -> None:
    """Have the kernel end us with our parent: while we are frozen we cannot see that it is gone."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main(name: str, folder: str, first: str, step: str, timeout: str, unsafe: str) -> None:
    """Sell until no seat is free, to the customers first, first + step, first + 2 * step …"""
    end_with_parent()
    store = SeatStore(Path(folder) / "seats.db", name, unsafe=unsafe == "True")
    with closing(store), fencelock.connect(f"sqlite:///{quote(folder)}/locks.db") as client:
        lock = client.lock(LOCK, ttl=TTL_S, timeout=float(timeout))
        tell("ready")
        wait_for_parent()
        for number in count(int(first), int(step)):
            outcome: Outcome = "not sold"
            while outcome == "not sold":
                outcome = sell_seat(lock, store, f"customer {number}")
            if outcome == "none left":
                break
        tell("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
