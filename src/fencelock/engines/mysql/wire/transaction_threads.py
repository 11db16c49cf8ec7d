"""A PyMySQL connection that its holder and the keeper share.

The driver's connections are not made for two threads. So each query takes a mutex, and what the
keeper sends waits for a response that is still being read. The transaction ends with the lease:
whoever tries to end it over the connection is told so.

Private names of PyMySQL, read in 1.1 and 1.2: ``_sock``, ``_result``, ``_read_timeout``,
``_force_close``.
"""

from __future__ import annotations

import threading
from secrets import token_hex
from typing import Any

from ....errors import UsageError
from ....world import World
from ..errors import unanswered, unreachable
from ..settings import Settings
from .codec import IN_TRANSACTION, ServerError
from .connection import setup_sql
from .connection_threads import connect_driver, shut_down, time_left

TOLD = (
    "this transaction is the lock: leaving the lock's block commits it, and an error that leaves "
    "the block rolls it back"
)


def refuse(*_: object) -> None:
    """Refuse what a holder must not do over the connection."""
    raise UsageError(TOLD)


def is_reading(connection: Any) -> bool:
    """Whether a response is not read to its end."""
    result = connection._result
    return result is not None and bool(result.unbuffered_active or result.has_next)


class ThreadsTransaction:
    """One connection of PyMySQL, with the transaction that it is in."""

    def __init__(self, world: World, connection: Any, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self.connection = connection
        self.socket: int = connection._sock.fileno()
        self.identity_lock = f"'fencelock:{token_hex(8)}'"
        self.limits = ""
        self._where = settings.where
        self._mutex = threading.RLock()
        self._close = connection.close
        self._query, self._next_result = connection.query, connection.next_result
        connection.query, connection.next_result = self._shared_query, self._shared_next_result
        connection.begin = connection.commit = connection.rollback = connection.close = refuse

    def _shared_query(self, sql: object, unbuffered: bool = False) -> Any:
        with self._mutex:
            return self._query(sql, unbuffered)

    def _shared_next_result(self, unbuffered: bool = False) -> Any:
        with self._mutex:
            return self._next_result(unbuffered)

    @property
    def is_closed(self) -> bool:
        return not self.connection.open

    @property
    def is_open(self) -> bool:
        return not self.is_closed and bool(self.connection.server_status & IN_TRANSACTION)

    async def query(self, statements: list[str], timeout: float) -> list[tuple[list[Any], int]]:
        timeout = time_left(self._world, self._settings, timeout)
        if not self._mutex.acquire(timeout=timeout):
            raise unreachable(TimeoutError("its holder is using the connection"), self._where)
        try:
            return self._run(statements, time_left(self._world, self._settings, timeout))
        finally:
            self._mutex.release()

    def _run(self, statements: list[str], timeout: float) -> list[tuple[list[Any], int]]:
        import pymysql

        connection = self.connection
        if self.is_closed:
            raise unreachable(ConnectionError("the connection has ended"), self._where)
        kept, before = connection._result, connection._read_timeout
        connection._read_timeout = timeout
        replies: list[tuple[list[Any], int]] = []
        try:
            self._query(";".join(statements))
            while True:
                result = connection._result
                replies.append((list(result.rows or ()), int(result.insert_id or 0)))
                if not result.has_next:
                    return replies
                self._next_result()
        except pymysql.MySQLError as error:
            code = error.args[0] if error.args else 0
            if connection.open and isinstance(code, int) and not 2000 <= code < 3000:
                raise ServerError(code, str(error.args[-1])) from error
            self._break()
            raise unanswered(error, self._where) from error
        except BaseException:
            self._break()
            raise
        finally:
            connection._result, connection._read_timeout = kept, before

    async def query_if_idle(self, statement: str, timeout: float) -> bool:
        if not self._mutex.acquire(blocking=False):
            return False
        try:
            if is_reading(self.connection):
                return False
            self._run([statement], timeout)
        finally:
            self._mutex.release()
        return True

    def close(self) -> None:
        if self.connection.open:
            try:
                self._close()
            except Exception:
                self._break()

    def _break(self) -> None:
        shut_down(self.connection._sock)
        self.connection._force_close()

    def disconnected(self) -> None:
        if self._mutex.acquire(blocking=False):
            try:
                self._break()
            finally:
                self._mutex.release()


async def connect_transaction(world: World, settings: Settings) -> ThreadsTransaction:
    """Connect for a transaction that a holder may join."""
    transaction = ThreadsTransaction(world, connect_driver(world, settings), settings)
    setup = setup_sql(settings, transaction.identity_lock)
    try:
        await transaction.query([setup], settings.request_timeout)
    except BaseException:
        transaction.close()
        raise
    return transaction
