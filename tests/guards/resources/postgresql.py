"""A counter in PostgreSQL, behind SqlGuard over psycopg."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg

from fencelock.guards.sql import SqlGuard
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared


class Counter:
    """A row of one table; its name is what is guarded."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        name, url = uuid4().hex, shared(Postgresql).url()
        with psycopg.connect(url) as db:
            SqlGuard().create(db)
            db.execute("SELECT pg_advisory_xact_lock(1, 1)")  # with whom creates it at once
            db.execute("CREATE TABLE IF NOT EXISTS counters (name text PRIMARY KEY, value bigint)")
            db.execute("INSERT INTO counters VALUES (%s, 0)", (name,))
        return json.dumps({"url": url, "name": name})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._name = place["name"]
        self._db = psycopg.connect(place["url"])
        self._guard = SqlGuard()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One that begins with its first statement, as psycopg's do by default."""
        try:
            yield
            self._db.commit()
        except BaseException:
            self._db.rollback()
            raise

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._transaction():
            self._guard.enter(self._db, fence, self._name, reading=reading)
            return self._look()

    def write(self, value: int, fence: int) -> None:
        with self._transaction():
            self._guard.enter(self._db, fence, self._name)
            self._put(value)

    def read(self) -> int:
        with self._transaction():
            return self._look()

    def write_bare(self, value: int) -> None:
        with self._transaction():
            self._put(value)

    def mark(self, reading: bool = False) -> int:
        with self._transaction():
            return int(self._guard.mark(self._db, self._name, reading=reading))

    def _look(self) -> int:
        found = self._db.execute("SELECT value FROM counters WHERE name = %s", (self._name,))
        row = found.fetchone()
        assert row is not None
        return int(row[0])

    def _put(self, value: int) -> None:
        self._db.execute("UPDATE counters SET value = %s WHERE name = %s", (value, self._name))

    def close(self) -> None:
        self._db.close()
