"""The floor for PostgreSQL: the same statements by hand, with psycopg.

No owner, no queue, no renewal, no errors handled: what anybody would write first. Both draw a
fence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from typing import Any

from bench.aio import AioContestant, Pairs
from bench.contestant import Lock, Session
from bench.postgresql_server import OnPostgresql

TABLES = """
SELECT pg_advisory_xact_lock(1, 1);
CREATE TABLE IF NOT EXISTS by_hand
  (name text PRIMARY KEY, owner text, fence bigint, expires_at timestamptz);
CREATE SEQUENCE IF NOT EXISTS by_hand_fence;
"""
TAKE = """
INSERT INTO by_hand AS l VALUES (%s, %s, 1, now() + interval '30 seconds')
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, fence = l.fence + 1,
  expires_at = excluded.expires_at WHERE l.expires_at <= now() RETURNING fence
"""
LEAVE = "UPDATE by_hand SET expires_at = now() WHERE name = %s AND owner = %s"
LOCK = "SELECT CASE WHEN pg_advisory_lock(%s)::text = '' THEN nextval('by_hand_fence') END"
UNLOCK = "SELECT pg_advisory_unlock(%s)"
OWNER = "0123456789abcdef0123456789abcdef"


class Advisory(OnPostgresql):
    """A session's advisory lock, with a fence from a sequence."""

    name = "psycopg advisory by hand"
    works = frozenset({"pair", "threads", "handoff", "wakeup"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place, _Advisory)


class Upsert(OnPostgresql):
    """A lease as a row: one upsert, one update."""

    name = "psycopg upsert by hand"
    works = frozenset({"pair", "threads"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place, _Upsert)


class _Session(Session):
    def __init__(self, place: str, kind: Any) -> None:
        self._place = place
        self._kind = kind
        self._connections: list[Any] = []

    def lock(self, name: str) -> Lock:
        import psycopg

        connection = psycopg.connect(self._place, autocommit=True)
        connection.execute(TABLES)
        self._connections.append(connection)
        lock: Lock = self._kind(connection, name)
        return lock

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class _Advisory(Lock):
    def __init__(self, connection: Any, name: str) -> None:
        self._execute = connection.execute
        self._key = (int.from_bytes(sha256(name.encode()).digest()[:7], "big"),)

    def acquire(self) -> int:
        (fence,) = self._execute(LOCK, self._key).fetchone()
        return int(fence)

    def release(self) -> None:
        assert self._execute(UNLOCK, self._key).fetchone() == (True,)


class _Upsert(Lock):
    def __init__(self, connection: Any, name: str) -> None:
        self._execute = connection.execute
        self._name = name

    def acquire(self) -> int:
        (fence,) = self._execute(TAKE, (self._name, OWNER)).fetchone()
        return int(fence)

    def release(self) -> None:
        assert self._execute(LEAVE, (self._name, OWNER)).rowcount == 1


class UpsertAio(OnPostgresql, AioContestant):
    """The upsert with psycopg's asyncio flavor, a connection for each task."""

    name = "psycopg upsert by hand asyncio"
    works = frozenset({"pair", "tasks"})
    yardstick = frozenset({"tasks"})

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self.place)


@asynccontextmanager
async def _opened(place: str) -> AsyncIterator[Pairs]:
    from psycopg import AsyncConnection

    connections: dict[str, Any] = {}

    async def pairs(name: str, count: int) -> None:
        if name not in connections:
            connection = await AsyncConnection.connect(place, autocommit=True)
            connections[name] = connection
            await connection.execute(TABLES)
        execute = connections[name].execute
        for _ in range(count):
            assert await (await execute(TAKE, (name, OWNER))).fetchone()
            await execute(LEAVE, (name, OWNER))

    try:
        yield pairs
    finally:
        for connection in connections.values():
            await connection.close()
