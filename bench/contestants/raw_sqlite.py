"""The floor for the embedded engine: a row inserted and deleted, in a transaction each."""

from __future__ import annotations

import os
import sqlite3

from bench.contestant import Contestant, Lock, Session


class RawSqlite(Contestant):
    """No owner, no expiry, no fence, no queue: what SQLite itself takes for two durable changes."""

    name = "raw sqlite3"
    works = frozenset({"pair"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(os.path.join(self.place, "raw.db"))


class _Session(Session):
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY) WITHOUT ROWID"
        )

    def lock(self, name: str) -> Lock:
        return _Lock(self._connection, name)

    def close(self) -> None:
        self._connection.close()


class _Lock(Lock):
    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self._execute = connection.execute
        self._name = (name,)

    def acquire(self) -> int:
        self._execute("INSERT INTO locks VALUES (?)", self._name)
        return 0

    def release(self) -> None:
        self._execute("DELETE FROM locks WHERE name=?", self._name)
