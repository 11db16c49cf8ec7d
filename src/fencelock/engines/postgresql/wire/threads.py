"""The connections of one client in a program of threads: a pool, sessions and transactions.

Each connection of the pool is used by one calling thread at a time, which itself sends, waits for
the socket and reads. When a connection fails, the idle ones are closed with it: they most likely
lead to the same dead server, and each of them would fail a call.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from ....errors import Unavailable
from ....world import World
from ..errors import Refused, lost, refusal
from ..listener import Listener
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement, Statements
from .connection_threads import ThreadConnection, connect, execute, reach, time_left
from .permits import Permit, Permits
from .session_threads import Poller, ThreadSession, ThreadTransaction


class Pool:
    """Connections for the threads of one client. A call that finds an idle one takes no lock."""

    def __init__(self, world: World, settings: Settings, size: int) -> None:
        self._world = world
        self._settings = settings
        self._size = size
        self._idle: list[ThreadConnection] = []
        self._permits = Permits(size)
        self._closed = False

    def execute(
        self, statement: Statement, values: Sequence[object], within: float | None = None
    ) -> Rows:
        """Run a statement over any connection."""
        connection = self._take()
        try:
            request_timeout = self._settings.request_timeout
            request_timeout = time_left(
                self._world, min(request_timeout, within or request_timeout)
            )
            return execute(connection, statement, values, request_timeout)
        finally:
            self.give(connection)

    @property
    def is_idle(self) -> bool:
        """Whether a connection is idle at this moment."""
        return bool(self._idle)

    def _take(self) -> ThreadConnection:
        give_up = 0.0
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                give_up = give_up or self._give_up()
                if (opened := self._grow(give_up)) is not None:
                    return opened
                continue
            if time.monotonic() < connection.fresh_until or not connection.stale():
                return connection
            self._drop(connection)

    def _give_up(self) -> float:
        return time.monotonic() + time_left(self._world, self._settings.request_timeout)

    def _grow(self, give_up: float) -> ThreadConnection | None:
        """Open one more connection, or wait a moment until the size allows it or one is idle."""
        if self._closed:
            raise Unavailable("the client is closed; nothing happened")
        permit = Permit()
        if self._permits.try_take(permit):
            try:
                return self.open(permit)
            except BaseException:
                self._permits.give(permit)
                raise
        left = give_up - time.monotonic()
        if left <= 0:
            raise Unavailable(
                f"all {self._size} connections of this client were busy; nothing happened. Raise "
                "pool, or see what keeps the database busy"
            )
        if not self._idle:
            self._permits.nap(left)
        return None

    def open(self, permit: Permit) -> ThreadConnection:
        """Open a connection for a permit that is valid."""
        connection = connect(self._world, self._settings)
        connection.permit = permit
        return connection

    def reach(self) -> bool:
        """Open the first connection; return whether it leads to the server itself."""
        connection = self._take()
        self.give(connection)
        return connection.direct

    def give(self, connection: ThreadConnection) -> None:
        """Return a connection to the pool."""
        if connection.broken or self._closed:
            self._drop(connection)
            self.clear()  # idle ones most likely lead to the same dead server
        elif connection.busy:  # an exception interrupted its caller
            self._drop(connection)
        else:
            self._idle.append(connection)
            self._permits.wake()

    def _drop(self, connection: ThreadConnection) -> None:
        connection.drop()
        permit, connection.permit = connection.permit, None
        if permit is not None:
            self._permits.give(permit)

    def clear(self) -> None:
        """Close the idle connections."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            self._drop(connection)

    def close(self) -> None:
        self._closed = True
        self.clear()


class ThreadsWire:
    """The wire for threads."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._pool = Pool(world, settings, settings.pool)
        self._reserve_pool = Pool(world, settings, 1)
        self._poller: Poller | None = None
        self.direct = True
        self.alone = True

    async def open(self) -> None:
        """Open the first connection, and find out whether it goes through a pooler."""
        self.direct = self._pool.reach()

    async def execute(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        """Run one statement in a transaction of its own."""
        return self._pool.execute(statement, values)

    async def execute_soon(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        """Run one statement; when no connection is idle, over the extra pool of one connection."""
        pool = self._pool if self._pool.is_idle else self._reserve_pool
        return pool.execute(statement, values, within)

    def listener(self, world: World, *sql: Statements) -> Listener:
        from ..listener_threads import ThreadListener

        return ThreadListener(world, self._settings, *sql)

    async def session(self) -> ThreadSession:
        """Open a connection that holds locks: it is never replaced by another one."""
        connection = connect(self._world, self._settings)
        return ThreadSession(
            self._world, connection, self._settings.request_timeout, self._sessions_poller()
        )

    async def transaction(self) -> ThreadTransaction:
        """Open a connection of the driver's, for a transaction that the caller may join."""
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
        self._reserve_pool.close()
        if self._poller is not None:
            self._poller.close()


def _run(connection: ThreadConnection, script: str, request_timeout: float) -> None:
    try:
        connection.script(script, max(request_timeout, 30.0))
    except Refused as error:
        raise refusal(error) from None
    except (psycopg.Error, OSError) as error:
        raise lost(error) from error
