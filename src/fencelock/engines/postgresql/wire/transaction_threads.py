"""A connection whose transaction the caller may join, under threads.

The caller has the driver's own object. Our words go over the same connection, one at a time with
the caller's: while a statement of the caller's runs, we stay silent.
"""

from __future__ import annotations

import threading

from psycopg import Connection, pq

from ....errors import OutcomeUnknown
from ....world import World
from ..statements import Statement
from .connection import Rows, shut
from .connection_threads import ThreadLink, time_left
from .session_threads import Lookout, ThreadSession


class ThreadTransaction(ThreadSession):
    """One transaction after another, on one connection."""

    _tries = 1  # what failed has undone the transaction, and a COMMIT after it would succeed

    def __init__(
        self,
        world: World,
        connection: Connection[tuple[object, ...]],
        request_timeout: float,
        lookout: Lookout,
    ) -> None:
        super().__init__(world, ThreadLink(connection.pgconn), request_timeout, lookout)
        self.connection = connection
        self._speaker = 0
        """The thread that speaks for us, and keeps the caller silent meanwhile."""

    def _begin(self, seconds: float = 0.0) -> bool:
        """Wait for so long until the caller is not using the connection, and keep it for us."""
        if not self.connection.lock.acquire(timeout=seconds):
            return False
        self._speaker = threading.get_ident()
        return True

    def _end(self) -> None:
        self._speaker = 0
        self.connection.lock.release()

    def _hang_up(self) -> None:
        """The server has ended it. A statement of the caller's that is under way finds out too."""
        if not self._begin():
            self.dead = True
            self._tell()
            return
        try:
            super()._hang_up()
        finally:
            self._end()

    def drop(self) -> None:
        """End it. Under the hands of the caller it is not closed: its statement finds out."""
        if self._speaker == threading.get_ident():
            super().drop()
        elif self._begin():
            try:
                super().drop()
            finally:
                self._end()
        else:
            self.dead = True
            self._lookout.hangups.forget(self._hang_up)
            shut(self.connection.pgconn)
            self._tell()

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        status = self.connection.pgconn.transaction_status
        return status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.ACTIVE)

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, and all that is left is to roll back."""
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.INERROR

    async def whisper(self, statement: Statement, *values: object) -> Rows | None:
        """Ask, unless the caller is using the connection at this moment."""
        if not self._begin():
            return None
        try:
            if self.connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                return None
            if self.connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
                return None
            return await self.ask(statement, *values)
        finally:
            self._end()

    async def end(self, statement: Statement) -> Rows:
        """Say the last word, after whatever the caller is doing with the connection."""
        if not self._begin(time_left(self._world, self._request_timeout)):
            raise OutcomeUnknown("its connection is busy with a statement of its holder")
        try:
            return await self.ask(statement)
        finally:
            self._end()
