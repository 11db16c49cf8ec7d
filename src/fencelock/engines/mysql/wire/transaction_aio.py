"""An aiomysql connection that its holder and the keeper share.

A question has a moment to end when its caller is cancelled: the driver would close the connection
at once, and the lock would go with it. The transaction ends with the lease, as with threads.
"""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Any

from ....world import World
from ..errors import unanswered, unreachable
from ..settings import Settings
from .codec import IN_TRANSACTION, ServerError
from .connection import hello
from .connection_aio import MOMENT_S, connect, drop
from .transaction_threads import is_reading, refuse


async def _refuse_later(*_: object) -> None:
    refuse()


class AioTransaction:
    """One connection of aiomysql, with the transaction that it is in."""

    def __init__(self, connection: Any, where: str) -> None:
        self.connection = connection
        self.socket: int = connection._writer.transport.get_extra_info("socket").fileno()
        self.badge = f"fencelock:{token_hex(8)}"
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
    def is_over(self) -> bool:
        return bool(self.connection.closed)

    @property
    def is_open(self) -> bool:
        return not self.is_over and bool(self.connection.server_status & IN_TRANSACTION)

    async def ask(self, statements: list[str], within: float) -> list[tuple[list[Any], int]]:
        async with self._mutex:
            return await self._ask(statements, within)

    async def _ask(self, statements: list[str], within: float) -> list[tuple[list[Any], int]]:
        if self.is_over:
            raise unreachable(ConnectionError("the connection has ended"), self._where)
        task = asyncio.ensure_future(self._run(statements, within))
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

    async def _run(self, statements: list[str], within: float) -> list[tuple[list[Any], int]]:
        import pymysql

        connection = self.connection
        kept: Any = connection._result
        replies: list[tuple[list[Any], int]] = []
        try:
            async with asyncio.timeout(within):
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

    async def whisper(self, statement: str, within: float) -> bool:
        if self._mutex.locked() or is_reading(self.connection):
            return False
        await self.ask([statement], within)
        return True

    def close(self) -> None:
        drop(self.connection)

    def hang_up(self) -> None:
        self.close()  # a holder that waits for an answer is told that there will be none


async def join(world: World, settings: Settings) -> AioTransaction:
    """Connect for a transaction that a holder may join."""
    transaction = AioTransaction(await connect(settings), settings.where)
    greeting = [hello(settings), f"DO GET_LOCK('{transaction.badge}',0)"]
    try:
        await transaction.ask(greeting, settings.request_timeout)
    except BaseException:
        transaction.close()
        raise
    return transaction
