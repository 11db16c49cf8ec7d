"""Receive notifications in a program of threads.

A blocking caller that waits alone listens by itself, for itself and for those that come after it:
that saves a thread and the switch between two. Else a thread of ours listens.
"""

from __future__ import annotations

import threading

import psycopg

from ...errors import FencelockError
from ...wires.thread_flag import ThreadFlag
from ...wires.wakeup_pipe import WakeupPipe
from ...world import Job, Signal, World
from ..timer import NEVER
from .listener import CLOSE_S, RECONNECT_S, Listener
from .rows import Rows
from .settings import Settings
from .statements import Statement, Statements
from .wire.connection_threads import ThreadConnection, connect, execute, time_left

GLANCE_S = 0.5  # how long a blocking caller listens before it checks whether it still has to


class ThreadListener(Listener):
    """Receives the notifications for one client."""

    def __init__(self, world: World, settings: Settings, *sql: Statements) -> None:
        super().__init__(world, settings, *sql)
        self._waited_for = ThreadFlag()
        self._mutex = world.mutex()
        self._reading = threading.Lock()
        """Held by the thread that reads from the connection."""
        self._on_duty = False
        """Whether our thread listens."""
        self._job: Job | None = None
        self._connection: ThreadConnection | None = None
        self._wakeup = WakeupPipe()

    async def watch(self, owner: str, signal: Signal) -> None:
        self._waiters.watch(owner, signal)
        if self._job is not None and self._ready.is_set():
            return
        self._begin()
        await self._world.wait(self._ready, self._world.now() + self._settings.request_timeout)

    def _begin(self) -> None:
        """Have our thread listen; start it if there is none."""
        self._waited_for.set()
        with self._mutex:
            if self._job is None:
                self._wakeup.open()
                self._job = self._world.spawn(self._run(), "fencelock-listener")

    def _look_now(self) -> None:
        self._begin()
        self._wakeup.wake()

    def unwatch(self, owner: str) -> None:
        self._waiters.unwatch(owner)
        self._rest()

    def unobserve(self, name: str, signal: Signal) -> None:
        super().unobserve(name, signal)
        self._rest()

    def _rest(self) -> None:
        """Let our thread stop listening if none waits: the next waiter may listen by itself."""
        if self._on_duty and not self._in_use:
            self._wakeup.wake()

    async def wait(self, signal: Signal, deadline: float) -> None:
        if self._on_duty or not self._listen_alone(signal, deadline):
            self._waited_for.set()
            await self._world.wait(signal, deadline)

    def _listen_alone(self, signal: Signal, deadline: float) -> bool:
        """Listen in the calling thread; return whether its wait is over."""
        if not self._reading.acquire(blocking=False):
            return False
        try:
            while not signal.is_set():
                now = self._world.now()
                if now >= deadline:
                    return True
                if self._connection is None or self._closing:
                    return False
                self._listen(now, min(deadline, now + GLANCE_S))
            return True
        except (FencelockError, psycopg.Error, OSError):
            return False  # our thread meets the same error, and reconnects
        finally:
            self._reading.release()

    def expect(self, remaining: float) -> None:
        end = self._world.now() + remaining
        if end < self._settle_at:
            self._settle_at = end
            if self._on_duty:
                self._wakeup.wake()

    def close_nowait(self) -> None:
        self._closing = True
        self._waited_for.set()
        self._wakeup.wake()

    async def close(self) -> None:
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    async def _run(self) -> None:
        """Listen, and send what is due, until the client is closed."""
        while not self._closing:
            try:
                if self._in_use and self._waited_for.is_set():
                    self._on_duty = True
                    with self._reading:
                        self._listen(self._world.now(), NEVER)
                else:
                    self._on_duty = False
                    self._waited_for.clear()
                    if self._in_use:  # a waiter came just now, and may have set it before
                        self._waited_for.set()
                    self._waited_for.wait(None)
            except (FencelockError, psycopg.Error, OSError):
                self._reconnect_later()
        with self._reading:  # another thread may still be reading
            if self._connection is not None:
                self._connection.drop()
        self._wakeup.close()

    def _listen(self, now: float, until: float) -> None:
        """Send what is due, then receive notifications, until a moment or until more is due."""
        connection = self._connection or self._connect()
        if now >= self._due_at():
            self._send_due(connection, now)
            now = self._world.now()
        for payload in connection.notifications(min(self._due_at(), until) - now, self._wakeup):
            self._notified(payload)

    def _send_due(self, connection: ThreadConnection, now: float) -> None:
        if (listen := self._listen_to_changes()) is not None:
            self._execute(connection, listen)
            self._listens_to_changes()
        if self._waiters.heartbeat_due(now):
            for sql in self._sql:
                self._execute(connection, sql.heartbeat, self.inbox)
            self._settle_at = min(self._settle_at, now)
        if now >= self._settle_at:
            parts = [self._execute(connection, sql.settle, self.inbox) for sql in self._sql]
            self._settled(parts, now)

    def _execute(self, connection: ThreadConnection, statement: Statement, *values: object) -> Rows:
        """Run a statement, in a waiting caller's thread not for longer than it wants to wait."""
        timeout = time_left(self._world, self._settings.request_timeout)
        return execute(connection, statement, values, timeout)

    def _connect(self) -> ThreadConnection:
        connection = connect(self._world, self._settings, self._settings.listen)
        inbox, listen = self._new_inbox()
        self._execute(connection, listen)
        self._execute(connection, self._sql[0].listen, inbox)
        self._connection = connection
        self._connected(inbox)
        return connection

    def _reconnect_later(self) -> None:
        """Drop the connection, wake the waiters, whose own calls meet the same error, and pause."""
        with self._reading:
            if self._connection is not None:
                self._connection.drop()
                self._connection = None
        self._ready.set()
        self._waiters.wake_all()
        threading.Event().wait(RECONNECT_S)
