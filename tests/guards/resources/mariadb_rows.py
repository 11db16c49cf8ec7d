"""A counter in MariaDB with the fence in its own row, behind RowGuard."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from fencelock.guards.sql import RowGuard
from tests.guards.resources.mariadb import connected, quick
from tests.servers.shared import shared

KEY = {"id": 42}
COLUMNS = "(id int PRIMARY KEY, n bigint, fence bigint, fence_read bigint, fence_write bigint)"


class Counter:
    """One row of a table of its own, each step a transaction of its own."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        table, server = f"stock_{uuid4().hex[:12]}", shared(quick)
        with server.connect() as db, db.cursor() as cursor:
            cursor.execute(f"CREATE TABLE {table} {COLUMNS}")
            cursor.execute(f"INSERT INTO {table} (id, n, fence) VALUES (42, 0, 0)")
        return json.dumps({"port": server.port, "table": table})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._table = place["table"]
        self._db = connected(place["port"], autocommit=True)
        self._guard = RowGuard(self._table)

    def enter(self, fence: int, reading: bool = False) -> int:
        self._db.begin()
        try:
            self._guard.enter(self._db, fence, KEY, reading=reading)
            value = self.read()
            self._db.commit()
        except BaseException:
            self._db.rollback()
            raise
        return value

    def write(self, value: int, fence: int) -> None:
        self._guard.update(self._db, fence, KEY, {"n": value})

    def read(self) -> int:
        with self._db.cursor() as cursor:
            cursor.execute(f"SELECT n FROM {self._table}")
            return int(cursor.fetchone()[0])

    def write_bare(self, value: int) -> None:
        with self._db.cursor() as cursor:
            cursor.execute(f"UPDATE {self._table} SET n = %s", (value,))

    def mark(self, reading: bool = False) -> int:
        return int(self._guard.mark(self._db, KEY, reading=reading))

    def close(self) -> None:
        self._db.close()
