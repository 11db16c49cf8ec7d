"""The connections of one client in a program of threads: a pool, sessions and transactions."""

from __future__ import annotations

from typing import Any

import psycopg

from ....world import World
from ..errors import Refused, lost, refusal
from ..listener import Listener
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement, Statements
from .connection_threads import ThreadConnection, connect, reach
from .poller_threads import Poller
from .pool_threads import Pool
from .session_threads import ThreadSession, ThreadTransaction


class ThreadsWire:
    """The wire for threads."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._pool = Pool(world, settings, settings.pool)
        self._keeper = Pool(world, settings, 1)
        self._poller: Poller | None = None
        self.direct = True
        self.alone = True

    async def open(self) -> None:
        """Reach the database once, and see whether a pooler stands before it."""
        self.direct = self._pool.reach()

    async def execute(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        """Run one statement in a transaction of its own."""
        return self._pool.execute(statement, values)

    async def execute_soon(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        """Run one statement; when all connections are busy, on the keeper's own."""
        pool = self._pool if self._pool.is_idle else self._keeper
        return pool.execute(statement, values, within)

    def listener(self, world: World, sql: Statements) -> Listener:
        from ..listener_threads import ThreadListener

        return ThreadListener(world, self._settings, sql)

    async def session(self) -> ThreadSession:
        """A connection that holds locks: it never becomes another one."""
        connection = connect(self._world, self._settings)
        return ThreadSession(
            self._world, connection, self._settings.request_timeout, self._sessions_poller()
        )

    async def transaction(self) -> ThreadTransaction:
        """A connection of the driver's, for a transaction that the caller may join."""
        connection: psycopg.Connection[Any] = psycopg.Connection(reach(self._world, self._settings))
        connection.autocommit = True
        connection.prepare_threshold = None
        request_timeout = self._settings.request_timeout
        return ThreadTransaction(self._world, connection, request_timeout, self._sessions_poller())

    def _sessions_poller(self) -> Poller:
        if self._poller is None:
            self._poller = Poller()
        return self._poller

    async def run_script(self, script: str) -> None:
        """Run several statements in one transaction; once in the life of a database."""
        connection = connect(self._world, self._settings)
        try:
            connection.prepares = False
            _run(connection, script, self._settings.request_timeout)
        finally:
            connection.drop()

    def close_nowait(self) -> None:
        if self._poller is not None:
            self._poller.close()

    async def close(self) -> None:
        self._pool.close()
        self._keeper.close()
        if self._poller is not None:
            self._poller.close()


def _run(connection: ThreadConnection, script: str, request_timeout: float) -> None:
    try:
        connection.script(script, max(request_timeout, 30.0))
    except Refused as error:
        raise refusal(error) from None
    except (psycopg.Error, OSError) as error:
        raise lost(error) from error
