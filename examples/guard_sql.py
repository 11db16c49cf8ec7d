"""A guard for rows in SQL: the first statement of a transaction decides whether it may happen.

SQLite here; with psycopg or PyMySQL the lines are the same. ``SqlGuard`` keeps its marks in a table
of its own, ``RowGuard`` in a column of the row.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing

import fencelock
from fencelock.guards.sql import RowGuard, SqlGuard

marks = SqlGuard()
rows = RowGuard("stock")  # by its column `fence`


def prepare(shop: sqlite3.Connection) -> None:
    marks.create(shop)  # or a migration with what marks.schema("sqlite") prints
    shop.execute("DROP TABLE IF EXISTS stock")
    shop.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER, fence INTEGER DEFAULT 0)")
    shop.execute("INSERT INTO stock (id, n) VALUES (42, 10)")
    shop.commit()


def count(shop: sqlite3.Connection, lease: fencelock.Lease) -> int:
    """Reads count: this is what a frozen holder must not decide on."""
    with shop:
        marks.enter(shop, lease)
        return int(shop.execute("SELECT n FROM stock WHERE id = 42").fetchone()[0])


def set_count(shop: sqlite3.Connection, lease: fencelock.Lease | int, n: int) -> None:
    with shop:  # commits, or rolls back what was refused
        marks.enter(shop, lease, "stock:42")
        shop.execute("UPDATE stock SET n = ? WHERE id = 42", (n,))


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    with (
        closing(sqlite3.connect("shop.db")) as shop,
        fencelock.connect("sqlite:///locks.db") as client,
    ):
        prepare(shop)
        # Not renewed, so it ends as if this process had been frozen.
        first = client.lock("stock:42", ttl=0.2, renew=False).acquire()
        n = count(shop, first)
        print(f"the first holder counts {n}, and freezes")
        time.sleep(0.3)

        with client.lock("stock:42", timeout=5) as second:
            set_count(shop, second, count(shop, second) - 1)
            print("the second holder takes one")

        try:
            set_count(shop, first.fence, n - 1)  # the lease would say itself that it is over
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")
        assert shop.execute("SELECT n FROM stock").fetchone() == (9,)

        with client.lock("stock:42") as third, shop:
            rows.update(shop, third, {"id": 42}, {"n": 8})
        try:
            rows.update(shop, first.fence, {"id": 42}, {"n": 9})
        except fencelock.StaleFence:
            print("the row refuses it, too, by its own column")


if __name__ == "__main__":
    main()
