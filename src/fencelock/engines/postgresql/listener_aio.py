"""Receive notifications on the event loop itself: no thread, and no task for a message.

The loop reads the connection and sets the signals of the waiters that a notification concerns. A
task runs only to connect and to send what is due; until then a timer waits, which no careless
``cancel`` of all tasks can end.
"""

from __future__ import annotations

import asyncio

import psycopg

from ...errors import FencelockError
from ...world import Job, Signal, World
from .errors import refusal
from .listener import CLOSE_S, RECONNECT_S, Listener
from .rows import Rows
from .settings import Settings
from .statements import Statement, Statements
from .wire.connection_aio import AioConnection, Call, connect


class AioListener(Listener):
    """Receives the notifications for one client."""

    def __init__(self, world: World, settings: Settings, *sql: Statements) -> None:
        super().__init__(world, settings, *sql)
        self._loop = asyncio.get_running_loop()
        self._connection: AioConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._job: Job | None = None
        self._begun = False
        self._reconnect_at = 0.0

    async def watch(self, owner: str, signal: Signal) -> None:
        self._waiters.watch(owner, signal)
        if self._timer is None:
            self._plan()
        if not self._ready.is_set():
            await self._world.wait(self._ready, self._world.now() + self._settings.request_timeout)

    def unwatch(self, owner: str) -> None:
        self._waiters.unwatch(owner)  # if it was the last, the timer is not set again

    def _look_now(self) -> None:
        self._plan()

    async def wait(self, signal: Signal, deadline: float) -> None:
        await self._world.wait(signal, deadline)

    def expect(self, remaining: float) -> None:
        end = self._world.now() + remaining
        if end < self._settle_at:
            self._settle_at = end
            self._plan()

    def _stand_by(self) -> None:
        super()._stand_by()
        self._plan()

    def close_nowait(self) -> None:
        self._closing = True
        try:
            self._loop.call_soon_threadsafe(self._end)  # a client may be dropped in any thread
        except RuntimeError:
            pass  # the loop is closed

    async def close(self) -> None:
        self._closing = True
        self._end()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.end(ConnectionError("closed"))

    def _plan(self) -> None:
        """Set the timer for what is due next; without a connection, for the next connect."""
        if self._job is not None or self._closing:
            return  # the running task sets the timer when it ends
        if self._timer is not None:
            self._timer.cancel()
        due = self._reconnect_at if self._connection is None else self._due_at()
        self._timer = self._loop.call_later(max(0.0, due - self._world.now()), self._start)

    def _start(self) -> None:
        self._timer = None
        if self._in_use and not self._closing:
            self._begun = False
            self._job = self._world.spawn(self._send_due(), "fencelock-listener")
            self._loop.call_soon(self._see_begun)  # which is after the first step of the task

    def _see_begun(self) -> None:
        """Set the timer again if the task was cancelled before its first step: none of it runs."""
        if not self._begun:
            self._job = None
            self._plan()

    async def _send_due(self) -> None:
        self._begun = True
        try:
            connection = self._connection or await self._connect()
            now = self._world.now()
            if (listen := self._listen_to_changes()) is not None:
                await self._execute(connection, listen)
                self._listens_to_changes()
            if self._waiters.heartbeat_due(now):
                for sql in self._sql:
                    await self._execute(connection, sql.heartbeat, self.inbox)
                self._settle_at = min(self._settle_at, now)
            if now >= self._settle_at:
                inbox = self.inbox
                parts = [await self._execute(connection, sql.settle, inbox) for sql in self._sql]
                self._settled(parts, now)
        except (FencelockError, psycopg.Error, OSError):
            self._reconnect_later()
        finally:
            self._job = None
            self._plan()

    async def _connect(self) -> AioConnection:
        connection = await connect(self._settings, self._done, self._settings.listen)
        connection.on_notify = self._notified
        inbox, listen = self._new_inbox()
        try:
            await self._execute(connection, listen)
            await self._execute(connection, self._sql[0].listen, inbox)
        except BaseException:
            connection.end(ConnectionError("it cannot be listened to"))
            raise
        if self._closing:
            connection.end(ConnectionError("closed"))
        self._connection = connection
        self._connected(inbox)
        return connection

    async def _execute(
        self, connection: AioConnection, statement: Statement, *values: object
    ) -> Rows:
        """Run a statement over the connection that listens: one at a time."""
        call = Call(statement, values, "", self._loop.create_future())
        connection.start([call], self._settings.request_timeout)
        return await call.future

    def _done(self, connection: AioConnection) -> None:
        """Deliver the results of a batch that has ended, or note that the connection has ended."""
        batch, connection.batch = connection.batch, []
        for call in batch:
            if call.error is not None:
                call.fail(refusal(call.error))
            elif not call.future.done():
                call.future.set_result(call.rows)
        if connection.broken and connection is self._connection:
            self._connection = None
            self._waiters.wake_all()
            self._plan()

    def _reconnect_later(self) -> None:
        """Plan to reconnect, and wake the waiters: their own calls meet the same error."""
        self._reconnect_at = self._world.now() + RECONNECT_S
        if self._connection is not None:
            self._connection.end(ConnectionError("there was trouble"))
        self._ready.set()
        self._waiters.wake_all()
