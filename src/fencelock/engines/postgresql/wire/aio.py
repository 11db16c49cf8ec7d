"""The wire for asyncio: the ways of one client to its database, all on the event loop."""

from __future__ import annotations

import psycopg

from ....errors import FencelockError
from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..errors import Refused, lost, refusal
from ..listener import Listener
from ..settings import Settings
from ..statements import LeaseStatements, Statement
from .batching_pool_aio import Lane
from .connection import Rows
from .connection_aio import connect, reach
from .session_aio import AioSession
from .transaction_aio import AioTransaction


class AioWire:
    """The way of one client to its database, for asyncio."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lane = Lane(settings, settings.pool)
        self._keeper = Lane(settings, 1)
        self._hangups: Hangups | None = None
        self.direct = True
        self.alone = False

    async def open(self) -> None:
        """Reach the database once, and see whether a pooler stands before it."""
        self.direct = await self._lane.reach()

    async def ask(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        return await self._lane.ask(statement, values, owner)

    async def keep(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        lane = self._lane if self._lane.is_idle else self._keeper
        return await lane.ask(statement, values, "", within)

    def listener(self, world: World, say: LeaseStatements) -> Listener:
        """What hears for the waiters of this client."""
        from ..listener_aio import AioListener

        return AioListener(world, self._settings, say, self._lane)

    async def session(self) -> AioSession:
        """A connection that holds locks: it never becomes another one."""
        session = AioSession(self._settings)
        session.begin(await connect(self._settings, session.done))
        return session

    async def transaction(self) -> AioTransaction:
        """A connection of the driver's, for a transaction that the caller may join."""
        connection = await reach(self._settings)
        if self._hangups is None:
            self._hangups = Hangups()
        return AioTransaction(connection, self._settings.request_timeout, self._hangups)

    async def run(self, script: str) -> None:
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
        await self._lane.close()
        await self._keeper.close()
        self.close_nowait()


def _of_driver(error: psycopg.Error) -> FencelockError:
    if error.sqlstate:
        return refusal(Refused(error.sqlstate, str(error), False))
    return lost(error)
