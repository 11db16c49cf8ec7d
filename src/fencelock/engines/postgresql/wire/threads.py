"""The wire for threads: a few connections, each used by one calling thread at a time.

The calling thread itself sends, waits for the socket and reads. A connection that failed is closed
together with those that lie idle: they most likely lead to the same dead server, and each of them
would cost somebody an answer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from ....errors import Unavailable
from ....world import World
from ..errors import Refused, lost, refusal
from ..listener import Listener
from ..settings import Settings
from ..statements import LeaseStatements, Statement
from .connection import Rows
from .connection_threads import ThreadLink, asked, connect, reach, time_left
from .session_threads import Lookout, ThreadSession
from .transaction_threads import ThreadTransaction
from .turns import Ticket, Turns


class Pool:
    """Connections for the threads of one client. Whoever finds one idle takes no lock."""

    def __init__(self, world: World, settings: Settings, size: int) -> None:
        self._world = world
        self._settings = settings
        self._size = size
        self._idle: list[ThreadLink] = []
        self._seats = Turns(size)
        self._closed = False

    def ask(
        self, statement: Statement, values: Sequence[object], within: float | None = None
    ) -> Rows:
        """Ask over any connection."""
        link = self._take()
        try:
            request_timeout = self._settings.request_timeout
            request_timeout = time_left(
                self._world, min(request_timeout, within or request_timeout)
            )
            return asked(link, statement, values, request_timeout)
        finally:
            self.give(link)

    @property
    def is_idle(self) -> bool:
        """Whether a connection is free at this moment."""
        return bool(self._idle)

    def _take(self) -> ThreadLink:
        give_up = 0.0
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                give_up = give_up or self._give_up()
                if (opened := self._grow(give_up)) is not None:
                    return opened
                continue
            if time.monotonic() < link.fresh_until or not link.stale():
                return link
            self._drop(link)

    def _give_up(self) -> float:
        return time.monotonic() + time_left(self._world, self._settings.request_timeout)

    def _grow(self, give_up: float) -> ThreadLink | None:
        """Open one more, or wait until there is room for that or one is idle."""
        if self._closed:
            raise Unavailable("the client is closed; nothing happened")
        seat = Ticket()
        if self._seats.try_take(seat):
            try:
                return self.open(seat)
            except BaseException:
                self._seats.give(seat)
                raise
        left = give_up - time.monotonic()
        if left <= 0:
            raise Unavailable(
                f"all {self._size} connections of this client were busy; nothing happened. Raise "
                "pool, or see what keeps the database busy"
            )
        if not self._idle:
            self._seats.nap(left)
        return None

    def open(self, seat: Ticket) -> ThreadLink:
        """Connect; there is room for it."""
        link = connect(self._world, self._settings)
        link.seat = seat
        return link

    def reach(self) -> bool:
        """Open the first connection; say whether it leads to the server itself."""
        link = self._take()
        self.give(link)
        return link.direct

    def give(self, link: ThreadLink) -> None:
        """Put a connection back."""
        if link.broken or self._closed:
            self._drop(link)
            self.clear()  # idle ones most likely lead to the same dead server
        elif link.busy:  # an exception threw its asker out
            self._drop(link)
        else:
            self._idle.append(link)
            self._seats.wake()

    def _drop(self, link: ThreadLink) -> None:
        link.drop()
        seat, link.seat = link.seat, None
        if seat is not None:
            self._seats.give(seat)

    def clear(self) -> None:
        """Close what lies idle."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:
                break
            self._drop(link)

    def close(self) -> None:
        self._closed = True
        self.clear()


class ThreadsWire:
    """The way of one client to its database, for threads."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._pool = Pool(world, settings, settings.pool)
        self._keeper = Pool(world, settings, 1)
        self._lookout: Lookout | None = None
        self.direct = True
        self.alone = True

    async def open(self) -> None:
        """Reach the database once, and see whether a pooler stands before it."""
        self.direct = self._pool.reach()

    async def ask(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        """Run one statement in a transaction of its own."""
        return self._pool.ask(statement, values)

    async def keep(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        """Run one statement; when all connections are busy, on the keeper's own."""
        pool = self._pool if self._pool.is_idle else self._keeper
        return pool.ask(statement, values, within)

    def listener(self, world: World, say: LeaseStatements) -> Listener:
        """What hears for the waiters of this client."""
        from ..listener_threads import ThreadListener

        return ThreadListener(world, self._settings, say)

    async def session(self) -> ThreadSession:
        """A connection that holds locks: it never becomes another one."""
        link = connect(self._world, self._settings)
        return ThreadSession(self._world, link, self._settings.request_timeout, self._look_out())

    async def transaction(self) -> ThreadTransaction:
        """A connection of the driver's, for a transaction that the caller may join."""
        connection: psycopg.Connection[Any] = psycopg.Connection(reach(self._world, self._settings))
        connection.autocommit = True
        connection.prepare_threshold = None
        request_timeout = self._settings.request_timeout
        return ThreadTransaction(self._world, connection, request_timeout, self._look_out())

    def _look_out(self) -> Lookout:
        if self._lookout is None:
            self._lookout = Lookout()
        return self._lookout

    async def run(self, script: str) -> None:
        """Run several statements in one transaction; once in the life of a database."""
        link = connect(self._world, self._settings)
        try:
            link.prepares = False
            _run(link, script, self._settings.request_timeout)
        finally:
            link.drop()

    def close_nowait(self) -> None:
        if self._lookout is not None:
            self._lookout.close()

    async def close(self) -> None:
        self._pool.close()
        self._keeper.close()
        if self._lookout is not None:
            self._lookout.close()


def _run(link: ThreadLink, script: str, request_timeout: float) -> None:
    try:
        link.script(script, max(request_timeout, 30.0))
    except Refused as error:
        raise refusal(error) from None
    except (psycopg.Error, OSError) as error:
        raise lost(error) from error
