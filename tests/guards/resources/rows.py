"""A counter in a SQLite file with the fence in its own row, behind RowGuard."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from fencelock.guards.sql import RowGuard

KEY = {"id": 42}
TIMEOUT_S = 30.0
COLUMNS = (
    "CREATE TABLE stock (id INTEGER PRIMARY KEY, n INTEGER, "
    "fence INTEGER, fence_read INTEGER, fence_write INTEGER)"
)


class Counter:
    """One row, each step a statement or two."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        path = str(folder / "counter.db")
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(COLUMNS)
        db.execute("INSERT INTO stock (id, n, fence) VALUES (42, 0, 0)")
        db.commit()
        db.close()
        return json.dumps({"path": path})

    def __init__(self, where: str) -> None:
        self._db = sqlite3.connect(json.loads(where)["path"], timeout=TIMEOUT_S)
        self._guard = RowGuard("stock")

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._db:
            self._guard.enter(self._db, fence, KEY, reading=reading)
            return self.read()

    def write(self, value: int, fence: int) -> None:
        with self._db:
            self._guard.update(self._db, fence, KEY, {"n": value})

    def read(self) -> int:
        return int(self._db.execute("SELECT n FROM stock").fetchone()[0])

    def write_bare(self, value: int) -> None:
        with self._db:
            self._db.execute("UPDATE stock SET n = ?", (value,))

    def mark(self, reading: bool = False) -> int:
        return int(self._guard.mark(self._db, KEY, reading=reading))

    def close(self) -> None:
        self._db.close()
