"""A row updated in a transaction, with the guard and without: SQLite and PostgreSQL.

Each commit is on disk before the next begins, as for anything that is worth a lock.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from bench.contestant import Target
from bench.postgresql_server import OnPostgresql
from bench.writing import Writing
from fencelock.guards.sql import RowGuard, SqlGuard

if TYPE_CHECKING:
    from psycopg import Connection

LIMIT = 1.3
LIMIT_IN_TRANSACTION = 1.5  # one round trip more, beside those of the transaction
TABLE = (
    "CREATE TABLE IF NOT EXISTS stock "
    "(id integer PRIMARY KEY, n integer, fence bigint NOT NULL DEFAULT 0)"
)
KEY = {"id": 42}


class SqliteBare(Writing):
    """One UPDATE in WAL mode."""

    name = "sqlite bare write"
    field = "guarded row in sqlite"
    yardstick = frozenset({"guards"})

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _sqlite(self.place, guarded=False)


class SqliteGuarded(Writing):
    """The same, behind SqlGuard.enter."""

    name = "sqlite guarded write"
    field = SqliteBare.field
    targets: ClassVar = {"guards": (Target("wall_us", "at most", LIMIT, versus=SqliteBare.name),)}

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _sqlite(self.place, guarded=True)


class SqliteColumn(Writing):
    """With the mark in the row itself, so that there is only one statement."""

    name = "sqlite guarded write by column"
    field = SqliteBare.field
    targets: ClassVar = {"guards": (Target("wall_us", "at most", LIMIT, versus=SqliteBare.name),)}

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _sqlite(self.place, guarded=True, by_column=True)


@contextmanager
def _sqlite(place: str, guarded: bool, by_column: bool = False) -> Iterator[Callable[[], object]]:
    db = sqlite3.connect(os.path.join(place, "stock.db"))
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute(TABLE)
    db.execute("INSERT OR IGNORE INTO stock (id, n) VALUES (42, 0)")
    guard = SqlGuard()
    guard.create(db)
    db.commit()

    numbers, row = count(), RowGuard("stock")

    def bare() -> None:
        db.execute("UPDATE stock SET n = ? WHERE id = ?", (next(numbers), 42))
        db.commit()

    def write() -> None:
        guard.enter(db, 7, "stock:42")
        bare()

    def write_row() -> None:
        row.update(db, 7, KEY, {"n": next(numbers)}, "stock:42")
        db.commit()

    yield (write_row if by_column else write) if guarded else bare
    db.close()


class PostgresqlBare(OnPostgresql, Writing):
    """One UPDATE with psycopg."""

    name = "postgresql bare write"
    field = "guarded row in postgresql"
    works = frozenset({"guards"})
    yardstick = works

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _postgresql(self.place, guarded=False)


class PostgresqlGuarded(OnPostgresql, Writing):
    """The same, behind SqlGuard.enter."""

    name = "postgresql guarded write"
    field = PostgresqlBare.field
    works = frozenset({"guards"})
    targets: ClassVar = {
        "guards": (Target("wall_us", "at most", LIMIT_IN_TRANSACTION, versus=PostgresqlBare.name),)
    }

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _postgresql(self.place, guarded=True)


class PostgresqlBlockBare(OnPostgresql, Writing):
    """One UPDATE in a block of ``connection.transaction()``."""

    name = "postgresql bare write in a block"
    field = "guarded row in postgresql, in a block"
    works = frozenset({"guards"})
    yardstick = works

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _postgresql_block(self.place, guarded=False)


class PostgresqlBlockGuarded(OnPostgresql, Writing):
    """The same, behind SqlGuard.enter."""

    name = "postgresql guarded write in a block"
    field = PostgresqlBlockBare.field
    works = frozenset({"guards"})
    targets: ClassVar = {
        "guards": (
            Target("wall_us", "at most", LIMIT_IN_TRANSACTION, versus=PostgresqlBlockBare.name),
        )
    }

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _postgresql_block(self.place, guarded=True)


class PostgresqlColumn(OnPostgresql, Writing):
    """With the mark in the row itself, so that there is only one statement."""

    name = "postgresql guarded write by column"
    field = PostgresqlBare.field
    works = frozenset({"guards"})
    targets: ClassVar = {
        "guards": (Target("wall_us", "at most", LIMIT, versus=PostgresqlBare.name),)
    }

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        return _postgresql(self.place, guarded=True, by_column=True)


@contextmanager
def _postgresql(
    place: str, guarded: bool, by_column: bool = False
) -> Iterator[Callable[[], object]]:
    with _stock(place) as db:
        guard, numbers, row = SqlGuard(), count(), RowGuard("stock")

        def bare() -> None:
            db.execute("UPDATE stock SET n = %s WHERE id = %s", (next(numbers), 42))
            db.commit()

        def write() -> None:
            guard.enter(db, 7, "stock:42")
            bare()

        def write_row() -> None:
            row.update(db, 7, KEY, {"n": next(numbers)}, "stock:42")
            db.commit()

        yield (write_row if by_column else write) if guarded else bare


@contextmanager
def _postgresql_block(place: str, guarded: bool) -> Iterator[Callable[[], object]]:
    with _stock(place) as db:
        guard, numbers = SqlGuard(), count()

        def write() -> None:
            with db.transaction():
                if guarded:
                    guard.enter(db, 7, "stock:42")
                db.execute("UPDATE stock SET n = %s WHERE id = %s", (next(numbers), 42))

        yield write


@contextmanager
def _stock(place: str) -> Iterator[Connection]:
    """A connection to a database with a row to be written and a table of marks."""
    import psycopg

    with psycopg.connect(place) as db:
        SqlGuard().create(db)
        db.execute(TABLE)
        db.execute("INSERT INTO stock (id, n) VALUES (42, 0) ON CONFLICT DO NOTHING")
        db.commit()
        yield db
