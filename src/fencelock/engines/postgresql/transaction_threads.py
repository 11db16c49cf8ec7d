"""A connection whose transaction the caller may join, under threads.

The caller has the driver's own object. Our words go over the same connection, one at a time with
the caller's: while a statement of the caller's runs, we stay silent.
"""

from __future__ import annotations

from psycopg import Connection, pq

from ...errors import OutcomeUnknown
from .link import Rows
from .link_threads import ThreadLink
from .session_threads import Lookout, ThreadSession
from .statements import Statement


class ThreadTransaction(ThreadSession):
    """One transaction after another, on one connection."""

    def __init__(
        self, connection: Connection[tuple[object, ...]], patience: float, lookout: Lookout
    ) -> None:
        super().__init__(ThreadLink(connection.pgconn), patience, lookout)
        self.connection = connection

    def _hang_up(self) -> None:
        """The server has ended it. A statement of the caller's that is under way finds out too."""
        if not self.connection.lock.acquire(blocking=False):
            self.dead = True
            self._tell()
            return
        try:
            super()._hang_up()
        finally:
            self.connection.lock.release()

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        status = self.connection.pgconn.transaction_status
        return status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.ACTIVE)

    async def whisper(self, statement: Statement, *values: object) -> Rows | None:
        """Ask, unless the caller is using the connection at this moment."""
        if not self.connection.lock.acquire(blocking=False):
            return None
        try:
            if self.connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                return None
            if self.connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
                return None
            return await self.ask(statement, *values)
        finally:
            self.connection.lock.release()

    async def end(self, statement: Statement) -> Rows:
        """Say the last word, after whatever the caller is doing with the connection."""
        if not self.connection.lock.acquire(timeout=self._patience):
            raise OutcomeUnknown("its connection is busy with a statement of its holder")
        try:
            return await self.ask(statement)
        finally:
            self.connection.lock.release()
