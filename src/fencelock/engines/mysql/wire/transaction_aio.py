"""An aiomysql connection that its holder and the keeper share.

A query has a moment to end when its caller is cancelled: the driver would close the connection at
once, and the lock would go with it. The transaction ends with the lease, as with threads.

Private names of aiomysql, read in 0.3.2: ``_writer``, ``_result``.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any

from ....world import World
from ..errors import unanswered, unreachable
from ..settings import Settings
from .codec import IN_TRANSACTION, ServerError
from .connection import setup_sql
from .connection_aio import MOMENT_S, close_driver, connect_driver
from .transaction_threads import is_reading, refuse


async def _refuse_later(*_: object) -> None:
    refuse()


class AioTransaction:
    """One connection of aiomysql, with the transaction that it is in."""

    def __init__(self, connection: Any, where: str) -> None:
        self.connection = connection
        self.socket: int = connection._writer.transport.get_extra_info("socket").fileno()
        self.identity_lock = f"'fencelock:{token_hex(8)}'"
        self.limits = ""
        self._where = where
        self._mutex = asyncio.Lock()
        self._query = connection.query
        connection.query = self._shared_query
        connection.begin = connection.commit = connection.rollback = _refuse_later

    async def _shared_query(self, sql: object, unbuffered: bool = False) -> Any:
        async with self._mutex:
            return await self._query(sql, unbuffered)

    @property
    def is_closed(self) -> bool:
        return bool(self.connection.closed)

    @property
    def is_open(self) -> bool:
        return not self.is_closed and bool(self.connection.server_status & IN_TRANSACTION)

    async def query(self, statements: list[str], timeout: float) -> list[tuple[list[Any], int]]:
        async with self._mutex:
            return await self._run_to_its_end(statements, timeout)

    async def _run_to_its_end(
        self, statements: list[str], timeout: float
    ) -> list[tuple[list[Any], int]]:
        if self.is_closed:
            raise unreachable(ConnectionError("the connection has ended"), self._where)
        task = asyncio.ensure_future(self._run(statements, timeout))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task}, timeout=None if cancelled is None else MOMENT_S)
            except asyncio.CancelledError as error:
                cancelled = error
            else:
                if not task.done():  # who is cancelled does not wait for a server that is silent
                    self.close()
                    task.cancel()
        if cancelled is not None:
            if not task.cancelled():
                task.exception()
            raise cancelled
        return task.result()

    async def _run(self, statements: list[str], timeout: float) -> list[tuple[list[Any], int]]:
        import pymysql

        connection = self.connection
        kept: Any = connection._result
        replies: list[tuple[list[Any], int]] = []
        try:
            async with asyncio.timeout(timeout):
                await self._query(";".join(statements))
                while True:
                    result = connection._result
                    replies.append((list(result.rows or ()), int(result.insert_id or 0)))
                    if not result.has_next:
                        return replies
                    await connection.next_result()
        except pymysql.MySQLError as error:
            code = error.args[0] if error.args else 0
            if not connection.closed and isinstance(code, int) and not 2000 <= code < 3000:
                raise ServerError(code, str(error.args[-1])) from error
            self.close()
            raise unanswered(error, self._where) from error
        except (OSError, RuntimeError, TimeoutError) as error:
            self.close()
            raise unanswered(error, self._where) from error
        finally:
            connection._result = kept

    async def query_if_idle(self, statement: str, timeout: float) -> bool:
        if self._mutex.locked() or is_reading(self.connection):
            return False
        await self.query([statement], timeout)
        return True

    def close(self) -> None:
        close_driver(self.connection)

    def disconnected(self) -> None:
        self.close()  # a holder that waits for an answer is told that there will be none


async def connect_transaction(world: World, settings: Settings) -> AioTransaction:
    """Connect for a transaction that a holder may join."""
    transaction = AioTransaction(await connect_driver(settings), settings.where)
    setup = setup_sql(settings, transaction.identity_lock)
    try:
        await transaction.query([setup], settings.request_timeout)
    except BaseException:
        transaction.close()
        raise
    return transaction
