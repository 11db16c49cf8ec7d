"""The resource that the lock protects: a seat map in a file, which checks the fence.

A lock alone cannot keep a process that was asleep from writing late.  The resource can: it
remembers the highest fence that it has seen and refuses a lower one, in the same transaction as the
operation.  Reading counts too: the first look of the new holder shuts the old one out, so that
nobody decides on what another is about to change.

Like a file, a bucket or a printer, this store overwrites what was there: only the fence protects a
seat.  It also keeps a record of every sale and refusal, for the verdict at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fencelock import StaleFence

PATIENCE_S = 5.0  # how long to wait while another process has the file
SEATS_PER_ROW = 4

SCHEMA = """
CREATE TABLE guard (highest INTEGER NOT NULL);
INSERT INTO guard VALUES (0);
CREATE TABLE seats (place INTEGER PRIMARY KEY, seat TEXT NOT NULL, customer TEXT);
CREATE TABLE sales (id INTEGER PRIMARY KEY, seat, customer, worker, fence);
CREATE TABLE refusals (id INTEGER PRIMARY KEY, seat, customer, worker, fence);
"""


class SeatStore:
    """The seats as one worker sees them.  ``unsafe`` leaves the check of the fence out."""

    def __init__(self, path: Path, worker: str, *, unsafe: bool = False) -> None:
        self._worker = worker
        self._unsafe = unsafe
        self._db = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)

    def close(self) -> None:
        self._db.close()

    def _admit(self, fence: int) -> None:
        """Refuse a fence below the highest seen.  Runs inside the transaction of the operation."""
        if self._unsafe:
            return
        (highest,) = self._db.execute("SELECT highest FROM guard").fetchone()
        if fence < highest:
            raise StaleFence(name="the seat map", offered=fence, highest=highest)
        self._db.execute("UPDATE guard SET highest = ?", (fence,))

    def find_free(self, fence: int) -> str | None:
        """Return the first free seat, or None when all are sold."""
        with self._db:  # commits, or rolls back if anything is raised
            self._db.execute("BEGIN IMMEDIATE")
            self._admit(fence)
            row = self._db.execute(
                "SELECT seat FROM seats WHERE customer IS NULL ORDER BY place LIMIT 1"
            ).fetchone()
        return None if row is None else str(row[0])

    def sell(self, seat: str, customer: str, fence: int) -> None:
        """Write the customer's name on the seat, unless the fence is stale."""
        sale = Sale(seat, customer, self._worker, fence)
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                self._admit(fence)
                self._db.execute("UPDATE seats SET customer = ? WHERE seat = ?", (customer, seat))
                self._db.execute("INSERT INTO sales VALUES (NULL, ?, ?, ?, ?)", sale)
        except StaleFence:
            self._db.execute("INSERT INTO refusals VALUES (NULL, ?, ?, ?, ?)", sale)
            raise


class Sale(NamedTuple):
    """One sale, taken or refused."""

    seat: str
    customer: str
    worker: str
    fence: int


class Records(NamedTuple):
    """What the store holds when all is over."""

    sales: Sequence[Sale]
    """In the order in which they were written, as are the refusals."""
    refusals: Sequence[Sale]
    seats: Mapping[str, str | None]
    """Whose name is on which seat."""


def create(path: Path, count: int) -> None:
    """Make the file, with all seats free."""
    db = sqlite3.connect(path)
    try:
        db.executescript(SCHEMA)
        with db:
            seats = [(seat_name(place),) for place in range(count)]
            db.executemany("INSERT INTO seats VALUES (NULL, ?, NULL)", seats)
    finally:
        db.close()


def seat_name(place: int) -> str:
    """1A, 1B, 1C, 1D, 2A and so on."""
    row, seat = divmod(place, SEATS_PER_ROW)
    return f"{row + 1}{'ABCD'[seat]}"


def read_records(path: Path) -> Records:
    """Read what a run has left."""
    db = sqlite3.connect(path)
    try:
        columns = "seat, customer, worker, fence"
        sales = [Sale(*row) for row in db.execute(f"SELECT {columns} FROM sales ORDER BY id")]
        refusals = [Sale(*row) for row in db.execute(f"SELECT {columns} FROM refusals ORDER BY id")]
        seats = dict(db.execute("SELECT seat, customer FROM seats ORDER BY place"))
    finally:
        db.close()
    return Records(sales, refusals, seats)
