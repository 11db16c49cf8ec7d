"""Counters in a SQLite file with guards by hand: one that is right, and some that are not.

They test the tests: each wrong one has a mistake that people make, and must be caught.
"""

from __future__ import annotations

import json
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencelock import StaleFence

TIMEOUT_S = 30.0


def dawdle() -> None:
    """Make the mistake easier to see: give others the time to come between."""
    time.sleep(random.random() * 0.005)


class Right:
    """Checks and raises the mark in the transaction of the operation."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        path = folder / "counter.db"
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE counter (value INTEGER, mark INTEGER, written INTEGER)")
        db.execute("INSERT INTO counter VALUES (0, 0, 0)")
        db.commit()
        db.close()
        return json.dumps({"path": str(path)})

    def __init__(self, where: str) -> None:
        path = json.loads(where)["path"]
        self._db = sqlite3.connect(path, timeout=TIMEOUT_S, isolation_level=None)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield

    def _admit(self, fence: int, reading: bool = False) -> None:
        if fence < (mark := self.mark(reading)):
            raise StaleFence(name="counter", offered=fence, highest=mark)
        self._db.execute("UPDATE counter SET mark = max(mark, ?)", (fence,))
        if not reading:
            self._db.execute("UPDATE counter SET written = ?", (fence,))

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._transaction():
            self._admit(fence, reading)
            return self.read()

    def write(self, value: int, fence: int) -> None:
        with self._transaction():
            self._admit(fence)
            self.write_bare(value)

    def read(self) -> int:
        return int(self._db.execute("SELECT value FROM counter").fetchone()[0])

    def write_bare(self, value: int) -> None:
        self._db.execute("UPDATE counter SET value = ?", (value,))

    def mark(self, reading: bool = False) -> int:
        column = "written" if reading else "mark"
        return int(self._db.execute(f"SELECT {column} FROM counter").fetchone()[0])

    def close(self) -> None:
        self._db.close()


class NoCheck(Right):
    """Keeps the highest fence and refuses none."""

    def _admit(self, fence: int, reading: bool = False) -> None:
        self._db.execute("UPDATE counter SET mark = max(mark, ?)", (fence,))


class BlindRead(Right):
    """Reads without raising the mark."""

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._transaction():
            if fence < (mark := self.mark(reading)):
                raise StaleFence(name="counter", offered=fence, highest=mark)
            value = self.read()
        dawdle()
        return value


class TwoSteps(Right):
    """Checks first and writes afterward, in a transaction of its own."""

    def write(self, value: int, fence: int) -> None:
        with self._transaction():
            self._admit(fence)
        dawdle()
        self.write_bare(value)


class WriteFirst(Right):
    """Writes first and raises the mark afterward: a crash between leaves a value without mark."""

    def write(self, value: int, fence: int) -> None:
        if fence < (mark := self.mark()):
            raise StaleFence(name="counter", offered=fence, highest=mark)
        self.write_bare(value)
        with self._transaction():
            self._admit(fence)


class OneMark(Right):
    """Has readers look at the mark of the writers, and leaves no mark of their own."""

    def _admit(self, fence: int, reading: bool = False) -> None:
        if fence < (mark := self.mark(reading)):
            raise StaleFence(name="counter", offered=fence, highest=mark)
        if reading:
            dawdle()
        else:
            self._db.execute("UPDATE counter SET mark = ?, written = ?", (fence, fence))


class ReadersWrite(Right):
    """Takes a reader for a writer: what is older is refused though it only reads."""

    def _admit(self, fence: int, reading: bool = False) -> None:
        super()._admit(fence)
