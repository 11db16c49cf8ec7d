"""The floor for MySQL and MariaDB: the same statements by hand, with PyMySQL.

No fence, no queue, no renewal, no errors handled: what anybody would write first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from bench.aio import AioContestant, Pairs
from bench.contestant import Lock, Session
from bench.mysql_server import OnMariadb, OnMysql, OnSql

TABLE = """
CREATE TABLE IF NOT EXISTS by_hand (
  name VARCHAR(255) PRIMARY KEY, owner CHAR(32), fence BIGINT, expires DATETIME(6)
) ENGINE=InnoDB
"""
TAKE = """
INSERT INTO by_hand VALUES (%s, %s, 1, NOW(6) + INTERVAL 30 SECOND)
ON DUPLICATE KEY UPDATE
  fence = IF(expires <= NOW(6), fence + 1, fence),
  owner = IF(expires <= NOW(6), VALUES(owner), owner),
  expires = IF(expires <= NOW(6), VALUES(expires), expires)
"""
LEAVE = "UPDATE by_hand SET expires = NOW(6) WHERE name = %s AND owner = %s"
OWNER = "0123456789abcdef0123456789abcdef"
LOCK = "SELECT fence FROM by_hand WHERE name = %s FOR UPDATE"
DRAW = "UPDATE by_hand SET fence = fence + 1, owner = %s WHERE name = %s"


class _ByGetLock(OnSql):
    """GET_LOCK and RELEASE_LOCK on a session that is kept."""

    works = frozenset({"pair", "threads", "handoff", "wakeup"})
    yardstick = works
    needs = ("pymysql",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self, _GetLock)


class _ByUpsert(OnSql):
    """A lease as a row: one upsert, one update."""

    works = frozenset({"pair", "threads"})
    needs = ("pymysql",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self, _Upsert)


class _ByRow(OnSql):
    """A row that is locked, and a fence that is drawn, in one transaction."""

    works = frozenset({"pair", "threads"})
    needs = ("pymysql",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self, _Row)


class _Session(Session):
    def __init__(self, contestant: OnSql, kind: Any) -> None:
        self._contestant = contestant
        self._kind = kind
        self._connections: list[Any] = []

    def lock(self, name: str) -> Lock:
        connection = self._contestant.plain()
        self._connections.append(connection)
        lock: Lock = self._kind(connection.cursor(), name)
        return lock

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class _GetLock(Lock):
    def __init__(self, cursor: Any, name: str) -> None:
        self._cursor = cursor
        self._name = (name,)

    def acquire(self) -> int:
        self._cursor.execute("SELECT GET_LOCK(%s, 30)", self._name)
        assert self._cursor.fetchone() == (1,)
        return 0

    def release(self) -> None:
        self._cursor.execute("SELECT RELEASE_LOCK(%s)", self._name)
        assert self._cursor.fetchone() == (1,)


class _Upsert(Lock):
    def __init__(self, cursor: Any, name: str) -> None:
        self._cursor = cursor
        self._name = name
        cursor.execute(TABLE)

    def acquire(self) -> int:
        assert self._cursor.execute(TAKE, (self._name, OWNER)) > 0
        return 0

    def release(self) -> None:
        assert self._cursor.execute(LEAVE, (self._name, OWNER)) == 1


class _Row(Lock):
    def __init__(self, cursor: Any, name: str) -> None:
        self._cursor = cursor
        self._name = name
        cursor.execute(TABLE)
        cursor.execute("INSERT IGNORE INTO by_hand VALUES (%s, '', 1, NOW(6))", (name,))

    def acquire(self) -> int:
        self._cursor.connection.begin()
        assert self._cursor.execute(LOCK, (self._name,)) == 1
        assert self._cursor.execute(DRAW, (OWNER, self._name)) == 1
        return 0

    def release(self) -> None:
        self._cursor.connection.commit()


class _ByGetLockAio(OnSql, AioContestant):
    """GET_LOCK with aiomysql, a connection for each task."""

    works = frozenset({"pair", "tasks"})
    yardstick = frozenset({"tasks"})
    needs = ("pymysql", "aiomysql")

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self, _get_lock)


class _ByUpsertAio(OnSql, AioContestant):
    """The upsert with aiomysql, a connection for each task."""

    works = frozenset({"pair", "tasks"})
    needs = ("pymysql", "aiomysql")

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self, _upsert)


async def _get_lock(cursor: Any, name: str) -> None:
    await cursor.execute("SELECT GET_LOCK(%s, 30)", (name,))
    assert await cursor.fetchone() == (1,)
    await cursor.execute("SELECT RELEASE_LOCK(%s)", (name,))
    assert await cursor.fetchone() == (1,)


async def _upsert(cursor: Any, name: str) -> None:
    assert await cursor.execute(TAKE, (name, OWNER)) > 0
    assert await cursor.execute(LEAVE, (name, OWNER)) == 1


@asynccontextmanager
async def _opened(contestant: OnSql, pair: Any) -> AsyncIterator[Pairs]:
    aiomysql: Any = import_module("aiomysql")  # it has no types
    parts = urlsplit(contestant.place)
    connections: dict[str, Any] = {}
    with contestant.plain() as plain:
        plain.cursor().execute(TABLE)  # aiomysql would warn that it is there already

    async def pairs(name: str, count: int) -> None:
        if name not in connections:
            connections[name] = await aiomysql.connect(
                host="127.0.0.1",
                port=parts.port,
                user=parts.username,
                password=unquote(parts.password or ""),
                db=parts.path.strip("/"),
                autocommit=True,
            )
        async with connections[name].cursor() as cursor:
            for _ in range(count):
                await pair(cursor, name)

    try:
        yield pairs
    finally:
        for connection in connections.values():
            await connection.ensure_closed()


class GetLockMariadb(OnMariadb, _ByGetLock):
    name = "GET_LOCK by hand mariadb"


class GetLockMysql(OnMysql, _ByGetLock):
    name = "GET_LOCK by hand mysql"


class UpsertMariadb(OnMariadb, _ByUpsert):
    name = "upsert by hand mariadb"


class UpsertMysql(OnMysql, _ByUpsert):
    name = "upsert by hand mysql"


class RowMariadb(OnMariadb, _ByRow):
    name = "FOR UPDATE by hand mariadb"


class RowMysql(OnMysql, _ByRow):
    name = "FOR UPDATE by hand mysql"


class GetLockAioMariadb(OnMariadb, _ByGetLockAio):
    name = "GET_LOCK by hand asyncio mariadb"


class GetLockAioMysql(OnMysql, _ByGetLockAio):
    name = "GET_LOCK by hand asyncio mysql"


class UpsertAioMariadb(OnMariadb, _ByUpsertAio):
    name = "upsert by hand asyncio mariadb"


class UpsertAioMysql(OnMysql, _ByUpsertAio):
    name = "upsert by hand asyncio mysql"
