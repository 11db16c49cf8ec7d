"""A counter in PostgreSQL with the fence in its own row, behind RowGuard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from fencelock.guards.sql import RowGuard
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared

KEY = {"id": 42}
COLUMNS = "(id int PRIMARY KEY, n bigint, fence bigint, fence_read bigint, fence_write bigint)"


class Counter:
    """One row of a table of its own, each step a transaction of its own."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        table, url = f"stock_{uuid4().hex[:12]}", shared(Postgresql).url()
        db: Any
        with psycopg.connect(url) as db:
            db.execute(f"CREATE TABLE {table} {COLUMNS}")
            db.execute(f"INSERT INTO {table} (id, n, fence) VALUES (42, 0, 0)")
        return json.dumps({"url": url, "table": table})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._table = place["table"]
        self._db: Any = psycopg.connect(place["url"], autocommit=True)
        self._guard = RowGuard(self._table)

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._db.transaction():
            self._guard.enter(self._db, fence, KEY, reading=reading)
            return self.read()

    def write(self, value: int, fence: int) -> None:
        self._guard.update(self._db, fence, KEY, {"n": value})

    def read(self) -> int:
        return int(self._db.execute(f"SELECT n FROM {self._table}").fetchone()[0])

    def write_bare(self, value: int) -> None:
        self._db.execute(f"UPDATE {self._table} SET n = %s", (value,))

    def mark(self, reading: bool = False) -> int:
        return int(self._guard.mark(self._db, KEY, reading=reading))

    def close(self) -> None:
        self._db.close()
