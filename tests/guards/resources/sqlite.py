"""A counter in a SQLite file, behind SqlGuard over sqlite3."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from fencelock.guards.sql import SqlGuard

NAME = "counter"
TIMEOUT_S = 30.0


class Counter:
    """A row of a table of its own; the marks are beside it."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        path = str(folder / "counter.db")
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE counter (value INTEGER)")
        db.execute("INSERT INTO counter VALUES (0)")
        SqlGuard().create(db)
        db.commit()
        db.close()
        return json.dumps({"path": path})

    def __init__(self, where: str) -> None:
        self._db = sqlite3.connect(json.loads(where)["path"], timeout=TIMEOUT_S)
        self._guard = SqlGuard()

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._db:
            self._guard.enter(self._db, fence, NAME, reading=reading)
            return self._look()

    def write(self, value: int, fence: int) -> None:
        with self._db:
            self._guard.enter(self._db, fence, NAME)
            self._db.execute("UPDATE counter SET value = ?", (value,))

    def read(self) -> int:
        with self._db:
            return self._look()

    def _look(self) -> int:
        return int(self._db.execute("SELECT value FROM counter").fetchone()[0])

    def write_bare(self, value: int) -> None:
        with self._db:
            self._db.execute("UPDATE counter SET value = ?", (value,))

    def mark(self, reading: bool = False) -> int:
        with self._db:
            return int(self._guard.mark(self._db, NAME, reading=reading))

    def close(self) -> None:
        self._db.close()
