"""A session under threads: one connection for its whole life, whose end is the end of its locks.

Threads use it in turn. A caller whose time is over leaves its statement under way, if the session
has locks: the next caller reads the result first. A statement without a timeout waits for a lock in
the server's own queue, and the poller waits for its result: one thread of a client for all such
sessions. Another thread notices when an idle session ends.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import psycopg
from psycopg import pq

from ....errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ....wires.daemon_thread import start_daemon
from ....wires.disconnect_monitor import Hangups
from ....wires.poll import READ, new_poll
from ....wires.wakeup_pipe import WakeupPipe
from ....world import World, snapshot
from ..errors import Refused, lost, refusal
from ..rows import Rows
from ..statements import Statement
from . import Undo
from .connection import shut
from .connection_threads import TRIES_MAX, ThreadConnection, execute, time_left
from .permits import Permit, Permits

UNDO_S = 1.0


class Poller:
    """One thread that waits for the results of many sessions at once."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sent: dict[int, tuple[ThreadConnection, Callable[[Rows | Exception], None]]] = {}
        self._poll = new_poll()
        self._wakeup = WakeupPipe()
        self._runs = False
        self._closed = False
        self.hangups = Hangups()

    def add(self, connection: ThreadConnection, done: Callable[[Rows | Exception], None]) -> None:
        """Call ``done`` when the result of the statement that was sent has come."""
        with self._mutex:
            socket = connection.pgconn.socket
            self._sent[socket] = (connection, done)
            self._poll.register(socket, READ)
            if not self._runs:  # set by the thread itself, which no exception can interrupt
                start_daemon(self._run, "fencelock-poller")
        self._wakeup.wake()

    def forget(self, connection: ThreadConnection) -> None:
        """Stop waiting for a connection that is about to be closed."""
        with self._mutex:
            for socket, (other, _) in snapshot(self._sent):
                if other is connection:
                    del self._sent[socket]
                    self._poll.unregister(socket)

    def close(self) -> None:
        self._closed = True
        self.hangups.close()
        self._wakeup.wake()

    def _run(self) -> None:
        with self._mutex:
            if self._runs:  # a second thread was started before the first one had set this
                return
            self._poll.register(self._wakeup.open(), READ)
            self._runs = True
        while not self._closed:
            for socket, _ in self._poll.poll():
                if socket == self._wakeup.descriptor:
                    self._wakeup.drain()
                else:
                    self._finish(socket)
        self._wakeup.close()

    def _finish(self, socket: int) -> None:
        with self._mutex:
            if socket not in self._sent:
                return
            connection, done = self._sent[socket]
            answer = _received(connection)
            if answer is None:
                return
            del self._sent[socket]
            self._poll.unregister(socket)
        done(answer)


def _received(connection: ThreadConnection) -> Rows | FencelockError | None:
    """Return the result of the statement that was sent, or None if not all of it has come."""
    try:
        connection.pgconn.consume_input()
        rows = connection.take()
        connection.busy = rows is None
        return rows
    except Refused as error:
        connection.busy = False
        return refusal(error)
    except (psycopg.Error, OSError) as error:
        return lost(error)


def _waited(connection: ThreadConnection, seconds: float) -> Rows | FencelockError | None:
    """Return the result of the statement that was sent, or None if it has not come in time."""
    give_up = time.monotonic() + seconds
    while (left := give_up - time.monotonic()) > 0:
        if connection.readable(left) and (answer := _received(connection)) is not None:
            return answer
    return None


class ThreadSession:
    """One session, which many threads use in turn."""

    _tries = TRIES_MAX
    """How often a statement is sent at most if it fails because of other transactions."""

    def __init__(
        self, world: World, connection: ThreadConnection, request_timeout: float, poller: Poller
    ) -> None:
        self._world = world
        self._connection = connection
        self._request_timeout = request_timeout
        self._poller = poller
        self._permits = Permits()
        self._permit = Permit()
        """The permit of the statement of ``send_async``."""
        self.pid = 0
        self.holds: set[str] = set()
        self.ttls: Counter[float] = Counter()
        self.limit = "0"
        self.limits_sent = 0
        self.dead = False
        self._caller = 0
        """The id of the thread that runs a statement, or 0."""
        self._sent: Callable[[Rows | Exception], None] | None = None
        self._ended: Callable[[], None] | None = None

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, in whatever thread, when the session has ended."""
        self._ended = ended
        self._poller.hangups.watch(self._connection.pgconn.socket, self._hang_up)

    def _hang_up(self) -> None:
        """Handle a disconnect by the server; a call under way notices it, and closes the socket."""
        self.dead = True
        permit = Permit()
        try:
            if self._permits.try_take(permit):
                self.drop()
            else:
                self._tell()
        finally:
            self._permits.give(permit)

    def _tell(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    async def execute(
        self, statement: Statement, *values: object, undo: Undo | None = None
    ) -> Rows:
        """Run one statement in a transaction of its own; run ``undo`` if the server refuses it."""
        permit = Permit(sys._getframe())  # pyright: ignore[reportPrivateUsage]
        try:
            if not self._permits.take(permit, time_left(self._world, self._request_timeout)):
                raise Unavailable("the session was busy for too long; nothing happened")
            self._caller = threading.get_ident()
            if self._connection.busy and not self.dead:
                self._drain()
            if self.dead or self._connection.stale():
                self.drop()
                raise Unavailable("the session has ended; nothing happened")
            request_timeout = time_left(self._world, self._request_timeout)
            try:
                keep = self._outlives(request_timeout)
                return execute(
                    self._connection, statement, values, request_timeout, self._tries, keep
                )
            except EngineError:
                if undo is not None:
                    self._undo(undo)
                raise
        finally:
            if self._connection.broken:
                self.drop()
            if self._caller == threading.get_ident():
                self._caller = 0
            self._permits.give(permit)

    def _undo(self, undo: Undo) -> None:
        """Undo what a refused statement has done all the same; end the session if that fails."""
        statement, *values = undo
        try:
            execute(self._connection, statement, values, UNDO_S)
        except FencelockError:
            self._connection.drop()

    def _outlives(self, seconds: float) -> bool:
        """Return whether the session goes on if no reply comes in the time of one caller.

        It has leases of others, who may have more time. Whoever waits for as long as
        ``request_timeout`` ends it.
        """
        return bool(self.holds) and seconds < self._request_timeout

    def _drain(self) -> None:
        """Read the result of a call that was interrupted or left, so that no other takes it."""
        seconds = time_left(self._world, self._request_timeout)
        try:
            self._connection.drain(seconds)
        except (psycopg.Error, OSError) as error:
            if isinstance(error, TimeoutError) and self._outlives(seconds):
                raise Unavailable("the session was silent; nothing happened") from error
            self.drop()

    def send_async(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement without a timeout; call ``done`` with its rows or its error."""
        permit = self._permit = Permit()  # no other call has a permit until the result has come
        self._sent = done
        try:
            request_timeout = time_left(self._world, self._request_timeout)
            if self.dead or not self._permits.take(permit, request_timeout):
                raise Unavailable("the session has ended; nothing happened")
            self._connection.send_async(statement, values, request_timeout)
        except (FencelockError, Refused, psycopg.Error, OSError) as error:
            self.drop()
            self._finish(error if isinstance(error, FencelockError) else lost(error))
        except BaseException:
            self.drop()
            raise

    async def wait_briefly(self, seconds: float) -> None:
        """Wait for the result in this thread for a moment; after that the poller waits."""
        if self._sent is None:
            return
        answer = _waited(self._connection, seconds)
        if answer is None:
            self._poller.add(self._connection, self._finish)
        else:
            self._finish(answer)

    def _finish(self, answer: Rows | Exception) -> None:
        if isinstance(answer, OutcomeUnknown):
            self.drop()
        done, self._sent = self._sent, None
        if done is not None:
            self._permits.give(self._permit)
            done(answer)

    def drop(self) -> None:
        """End the session: the server releases its locks."""
        self.dead = True
        self._poller.hangups.forget(self._hang_up)
        self._poller.forget(self._connection)
        self._connection.drop()
        self._tell()


class ThreadTransaction(ThreadSession):
    """A connection of the driver's, for one transaction after another."""

    _tries = 1  # a failure has undone the transaction, and a repeated COMMIT would then succeed

    def __init__(
        self,
        world: World,
        connection: psycopg.Connection[tuple[object, ...]],
        request_timeout: float,
        poller: Poller,
    ) -> None:
        super().__init__(world, ThreadConnection(connection.pgconn), request_timeout, poller)
        self.connection = connection
        self.began = 0
        self._user = 0
        """The id of the thread of ours that has the driver's lock of the connection, or 0."""

    def _begin(self, seconds: float = 0.0) -> bool:
        """Take the driver's lock of the connection, which excludes the holder; False if busy."""
        if not self.connection.lock.acquire(timeout=seconds):
            return False
        self._user = threading.get_ident()
        return True

    def _end(self) -> None:
        self._user = 0
        self.connection.lock.release()

    def _hang_up(self) -> None:
        """Handle a disconnect by the server. A statement of the holder's under way notices too."""
        if not self._begin():
            self.dead = True
            self._tell()
            return
        try:
            super()._hang_up()
        finally:
            self._end()

    def drop(self) -> None:
        """End the connection; if another thread uses it, shut its socket: its statement fails."""
        me = threading.get_ident()
        if self._user == me:
            super().drop()
        elif self._caller in (0, me) and self._begin():
            try:
                super().drop()
            finally:
                self._end()
        else:
            self.dead = True
            self._poller.hangups.forget(self._hang_up)
            shut(self.connection.pgconn)
            self._tell()

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        status = self.connection.pgconn.transaction_status
        return status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.ACTIVE)

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, so that only a rollback is possible."""
        return self.connection.pgconn.transaction_status == pq.TransactionStatus.INERROR

    async def execute_if_idle(self, statement: Statement, *values: object) -> Rows | None:
        """Run one statement, unless the holder is using the connection at this moment."""
        if not self._begin():
            return None
        try:
            if self.connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                return None
            if self.connection.pgconn.pipeline_status != pq.PipelineStatus.OFF:
                return None
            return await self.execute(statement, *values)
        finally:
            self._end()

    async def execute_last(self, statement: Statement) -> Rows:
        """Run the last statement, once no statement of the holder's is using the connection."""
        if not self._begin(time_left(self._world, self._request_timeout)):
            raise OutcomeUnknown("its connection is busy with a statement of its holder")
        try:
            return await self.execute(statement)
        finally:
            self._end()
