"""A session under threads: one connection for its whole life, whose end is the end of its locks.

Threads take turns on it. A statement that may take for ever, because it waits for a lock in the
server's own queue, is left to the lookout: one thread of a client for all such sessions. Another
one hears when a session ends while nobody asks anything over it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import psycopg

from ....errors import FencelockError, OutcomeUnknown, Unavailable
from ....wires.disconnect_monitor import Hangups
from ....wires.wakeup_pipe import Alarm
from ....world import World
from ..errors import Refused, lost, refusal
from ..statements import Statement
from .connection import Rows
from .connection_threads import TRIES_MAX, ThreadLink, asked, time_left
from .poll import READABLE, new_poll
from .turns import Ticket, Turns


class ThreadSession:
    """One session, for many threads."""

    _tries = TRIES_MAX
    """How often a statement is sent that failed because of others."""

    def __init__(
        self, world: World, link: ThreadLink, request_timeout: float, lookout: Lookout
    ) -> None:
        self._world = world
        self._link = link
        self._request_timeout = request_timeout
        self._lookout = lookout
        self._turns = Turns()
        self._ticket = Ticket()
        """Of a statement that may take for ever."""
        self.pid = 0
        self.holds: set[str] = set()
        self.ttls: Counter[float] = Counter()
        self.limit = "0"
        self.telling = 0
        self.dead = False
        self._posted: Callable[[Rows | Exception], None] | None = None
        self._ended: Callable[[], None] | None = None

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, in whatever thread, when the session has ended."""
        self._ended = ended
        self._lookout.hangups.watch(self._link.pgconn.socket, self._hang_up)

    def _hang_up(self) -> None:
        """The server has ended it. Whoever uses the link finds that out, and closes it."""
        self.dead = True
        ticket = Ticket()
        try:
            if self._turns.try_take(ticket):
                self.drop()
            else:
                self._tell()
        finally:
            self._turns.give(ticket)

    def _tell(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

    async def ask(self, statement: Statement, *values: object) -> Rows:
        """Run one statement in a transaction of its own."""
        ticket = Ticket(sys._getframe())  # pyright: ignore[reportPrivateUsage]
        try:
            if not self._turns.take(ticket, time_left(self._world, self._request_timeout)):
                raise Unavailable("the session was busy for too long; nothing happened")
            if self._link.busy and not self.dead:
                self._drain()
            if self.dead or self._link.stale():
                self.drop()
                raise Unavailable("the session has ended; nothing happened")
            request_timeout = time_left(self._world, self._request_timeout)
            return asked(self._link, statement, values, request_timeout, self._tries)
        finally:
            if self._link.broken:
                self.drop()
            self._turns.give(ticket)

    def _drain(self) -> None:
        """Somebody was thrown out before its answer came: nobody else may take it for its own."""
        try:
            self._link.drain(time_left(self._world, self._request_timeout))
        except (psycopg.Error, OSError):
            self.drop()

    def post(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement that may take for ever; ``done`` hears what becomes of it."""
        ticket = self._ticket = Ticket()  # nobody else is served until the answer has come
        self._posted = done
        try:
            request_timeout = time_left(self._world, self._request_timeout)
            if self.dead or not self._turns.take(ticket, request_timeout):
                raise Unavailable("the session has ended; nothing happened")
            self._link.post(statement, values, request_timeout)
        except (FencelockError, Refused, psycopg.Error, OSError) as error:
            self.drop()
            self._hear(error if isinstance(error, FencelockError) else lost(error))
        except BaseException:
            self.drop()
            raise

    async def linger(self, seconds: float) -> None:
        """Wait in this thread for a moment; after that the lookout waits."""
        if self._posted is None:
            return
        answer = waited(self._link, seconds)
        if answer is None:
            self._lookout.add(self._link, self._hear)
        else:
            self._hear(answer)

    def _hear(self, answer: Rows | Exception) -> None:
        if isinstance(answer, OutcomeUnknown):
            self.drop()
        done, self._posted = self._posted, None
        if done is not None:
            self._turns.give(self._ticket)
            done(answer)

    def drop(self) -> None:
        """End it: the server gives its locks back."""
        self.dead = True
        self._lookout.hangups.forget(self._hang_up)
        self._lookout.forget(self._link)
        self._link.drop()
        self._tell()


class Lookout:
    """Waits for the answers of many sessions at once, in one thread, while there are any."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._posted: dict[int, tuple[ThreadLink, Callable[[Rows | Exception], None]]] = {}
        self._poll = new_poll()
        self._alarm = Alarm()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.hangups = Hangups()

    def add(self, link: ThreadLink, done: Callable[[Rows | Exception], None]) -> None:
        """Call ``done`` when the statement that was posted is answered."""
        with self._mutex:
            socket = link.pgconn.socket
            self._posted[socket] = (link, done)
            self._poll.register(socket, READABLE)
            if self._thread is None:
                self._poll.register(self._alarm.open(), READABLE)
                self._thread = threading.Thread(
                    target=self._run, name="fencelock-lookout", daemon=True
                )
                self._thread.start()
        self._alarm.ring()

    def forget(self, link: ThreadLink) -> None:
        """The link is about to be closed."""
        with self._mutex:
            for socket, (other, _) in list(self._posted.items()):
                if other is link:
                    del self._posted[socket]
                    self._poll.unregister(socket)

    def close(self) -> None:
        self._closed = True
        self.hangups.close()
        self._alarm.ring()

    def _run(self) -> None:
        while not self._closed:
            for socket, _ in self._poll.poll():
                if socket == self._alarm.descriptor:
                    self._alarm.hush()
                else:
                    self._hear(socket)
        self._alarm.close()

    def _hear(self, socket: int) -> None:
        with self._mutex:
            if socket not in self._posted:
                return
            link, done = self._posted[socket]
            answer = heard(link)
            if answer is None:
                return
            del self._posted[socket]
            self._poll.unregister(socket)
        done(answer)


def heard(link: ThreadLink) -> Rows | FencelockError | None:
    """What has come for a statement that was posted, if all of it has."""
    try:
        link.pgconn.consume_input()
        rows = link.take()
        link.busy = rows is None
        return rows
    except Refused as error:
        link.busy = False
        return refusal(error)
    except (psycopg.Error, OSError) as error:
        return lost(error)


def waited(link: ThreadLink, seconds: float) -> Rows | FencelockError | None:
    """The same, after waiting for it."""
    give_up = time.monotonic() + seconds
    while (left := give_up - time.monotonic()) > 0:
        if link.readable(left) and (answer := heard(link)) is not None:
            return answer
    return None
