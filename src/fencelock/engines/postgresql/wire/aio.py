"""The connections of one client in a program of asyncio, all on its event loop."""

from __future__ import annotations

import psycopg

from ....errors import FencelockError
from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..errors import Refused, lost, refusal
from ..listener import Listener
from ..rows import Rows
from ..settings import Settings
from ..statements import Statement, Statements
from .batching_pool_aio import BatchingPool
from .connection_aio import connect, reach
from .session_aio import AioSession, AioTransaction


class AioWire:
    """The wire for asyncio."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool = BatchingPool(settings, settings.pool)
        self._reserve_pool = BatchingPool(settings, 1)
        self._hangups: Hangups | None = None
        self.direct = True
        self.alone = False

    async def open(self) -> None:
        """Open the first connection, and find out whether it goes through a pooler."""
        self.direct = await self._pool.reach()

    async def execute(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        return await self._pool.execute(statement, values, owner)

    async def execute_soon(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        pool = self._pool if self._pool.is_idle else self._reserve_pool
        return await pool.execute(statement, values, "", within)

    def listener(self, world: World, *sql: Statements) -> Listener:
        from ..listener_aio import AioListener

        return AioListener(world, self._settings, *sql)

    async def session(self) -> AioSession:
        session = AioSession(self._settings)
        session.begin(await connect(self._settings, session.done))
        return session

    async def transaction(self) -> AioTransaction:
        connection = await reach(self._settings)
        if self._hangups is None:
            self._hangups = Hangups()
        return AioTransaction(connection, self._settings.request_timeout, self._hangups)

    async def run_script(self, script: str) -> None:
        connection = await reach(self._settings)
        try:
            await connection.execute(script.encode())
        except psycopg.Error as error:
            raise _of_driver(error) from None
        finally:
            await connection.close()

    def close_nowait(self) -> None:
        if self._hangups is not None:
            self._hangups.close()

    async def close(self) -> None:
        await self._pool.close()
        await self._reserve_pool.close()
        self.close_nowait()


def _of_driver(error: psycopg.Error) -> FencelockError:
    if error.sqlstate:
        return refusal(Refused(error.sqlstate, str(error), False))
    return lost(error)
