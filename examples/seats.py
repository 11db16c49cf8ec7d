"""A resource that checks the fence, in SQL, and refuses a holder that comes too late.

The guard is one row per lock name: the highest fence seen. Every operation raises it, reads
included, in the same transaction as the work. So a holder that was frozen can neither write nor
decide on what it reads.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import fencelock

LOCK = "seats"

SCHEMA = """
CREATE TABLE IF NOT EXISTS guards (name TEXT PRIMARY KEY, highest INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS seats (seat TEXT PRIMARY KEY, customer TEXT);
INSERT OR REPLACE INTO seats VALUES ('1A', NULL), ('1B', NULL);
"""

# One statement checks and raises the mark: it changes no row when the fence is older.
RAISE = """
INSERT INTO guards VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE SET highest = excluded.highest WHERE highest <= excluded.highest
"""


class Seats:
    """The seats of one theater."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(SCHEMA)

    @contextmanager
    def _guarded(self, fence: int) -> Iterator[None]:
        """A transaction that begins with the check of the fence."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            if self._db.execute(RAISE, (LOCK, fence)).rowcount == 0:
                query = "SELECT highest FROM guards WHERE name = ?"
                (highest,) = self._db.execute(query, (LOCK,)).fetchone()
                raise fencelock.StaleFence(name=LOCK, offered=fence, highest=highest)
            yield

    def find_free(self, fence: int) -> str:
        with self._guarded(fence):
            query = "SELECT seat FROM seats WHERE customer IS NULL ORDER BY seat LIMIT 1"
            (seat,) = self._db.execute(query).fetchone()
            return str(seat)

    def book(self, seat: str, customer: str, fence: int) -> None:
        with self._guarded(fence):
            self._db.execute("UPDATE seats SET customer = ? WHERE seat = ?", (customer, seat))

    def customer_of(self, seat: str) -> str:
        query = "SELECT customer FROM seats WHERE seat = ?"
        return str(self._db.execute(query, (seat,)).fetchone()[0])

    def close(self) -> None:
        self._db.close()


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    with closing(Seats("seats.db")) as seats, fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock(LOCK, ttl=0.2, renew=False).acquire()
        seat = seats.find_free(first.fence)
        print(f"the first holder sees that {seat} is free, and freezes")
        time.sleep(0.3)

        with client.lock(LOCK, timeout=5) as second:
            assert seats.find_free(second.fence) == seat
            seats.book(seat, "customer 2", second.fence)
            print(f"the second holder sells {seat} to customer 2")

        try:
            seats.book(seat, "customer 1", first.fence)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")
        print(f"it also knows by itself: {first.reason}")
        assert seats.customer_of(seat) == "customer 2"


if __name__ == "__main__":
    main()
