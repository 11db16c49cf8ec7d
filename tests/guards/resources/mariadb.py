"""A counter in MariaDB, behind SqlGuard over PyMySQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pymysql

from fencelock.guards.sql import SqlGuard
from tests.servers.mariadb import DATABASE, PASSWORD, USER, MariaDB, SqlServer
from tests.servers.shared import shared

TABLE = (
    "CREATE TABLE IF NOT EXISTS counters (name VARCHAR(64) PRIMARY KEY, value BIGINT) ENGINE=InnoDB"
)


def quick() -> MariaDB:
    """It is clients that are killed here, so the server need not wait for the disk."""
    return MariaDB("innodb-flush-log-at-trx-commit=0")


def connected(port: int, **options: Any) -> Any:
    """A connection of PyMySQL to the server at a port."""
    return pymysql.connect(
        host="127.0.0.1", port=port, user=USER, password=PASSWORD, database=DATABASE, **options
    )


class Counter:
    """A row of one table."""

    @classmethod
    def server(cls) -> SqlServer:
        return shared(quick)

    @classmethod
    def prepare(cls, folder: Path) -> str:
        name, server = uuid4().hex, cls.server()
        with server.connect() as db, db.cursor() as cursor:
            SqlGuard().create(db)
            cursor.execute(TABLE)
            cursor.execute("INSERT INTO counters VALUES (%s, 0)", (name,))
        return json.dumps({"port": server.port, "name": name})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._name = place["name"]
        self._db = connected(place["port"])
        self._guard = SqlGuard()

    def enter(self, fence: int, reading: bool = False) -> int:
        with _Transaction(self._db):
            self._guard.enter(self._db, fence, self._name, reading=reading)
            return self._look()

    def write(self, value: int, fence: int) -> None:
        with _Transaction(self._db):
            self._guard.enter(self._db, fence, self._name)
            self._put(value)

    def read(self) -> int:
        with _Transaction(self._db):
            return self._look()

    def write_bare(self, value: int) -> None:
        with _Transaction(self._db):
            self._put(value)

    def mark(self, reading: bool = False) -> int:
        with _Transaction(self._db):
            return int(self._guard.mark(self._db, self._name, reading=reading))

    def _look(self) -> int:
        with self._db.cursor() as cursor:
            cursor.execute("SELECT value FROM counters WHERE name = %s", (self._name,))
            return int(cursor.fetchone()[0])

    def _put(self, value: int) -> None:
        with self._db.cursor() as cursor:
            cursor.execute("UPDATE counters SET value = %s WHERE name = %s", (value, self._name))

    def close(self) -> None:
        self._db.close()


class _Transaction:
    """Commit, or roll back what failed."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._db.commit()
        else:
            self._db.rollback()
