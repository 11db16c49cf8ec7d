"""The connections of one client: few, used again, and lent to one caller at a time.

An exception of a signal handler may end a caller between any two steps. So room is not counted up
and down: a connection, or the right to make one, takes room for as long as somebody knows it.
"""

from __future__ import annotations

from collections import deque

from ....errors import OutcomeUnknown, Unavailable
from ....wires.room import Room, Slot
from ....world import Signal, World, sleep
from ..errors import DEADLOCK, refused
from ..settings import Settings
from .codec import Reply, ServerError
from .connection import Connection, Wire

FRESH_S = 1.0  # a connection that was used so lately is not looked at before it is used again
TRIES = 10  # for statements that met others in a deadlock
LOOK_S = 0.1  # how often who waits for a connection looks whether one was lost
END_S = 1.0  # how long the server may take to end a session that was given up
ENDING_S = 0.01


class _Waiter:
    """One who waits for a connection, or was given one at once."""

    def __init__(
        self, connection: tuple[Connection, float] | None = None, slot: Slot | None = None
    ) -> None:
        self.connection = connection
        """What it was given, and when that was last used."""
        self.slot = slot
        self.signal: Signal | None = None

    def wake(self) -> None:
        if self.signal is not None:
            self.signal.set()


class Pool:
    """At most so many connections; who comes when all are lent waits."""

    def __init__(
        self, world: World, settings: Settings, wire: Wire, size: int, orderly: bool = False
    ) -> None:
        """In an ``orderly`` pool no request overtakes one whose caller has given up."""
        self._world = world
        self._settings = settings
        self._wire = wire
        self._size = size
        self._orderly = orderly
        self._free: deque[tuple[Connection, float]] = deque()
        self._taken = Room()
        """All connections, and the rights to make one."""
        self._abandoned: set[str] = set()
        """Sessions whose last request may still be served, though nobody waits for the response."""
        self._mutex = world.mutex()
        self._queue: deque[_Waiter] = deque()
        self._closed = False

    async def query(self, sql: str, wakes: bool = False) -> list[Reply]:
        """Run statements on any connection.

        A statement that met others in a deadlock was undone by the server, and is tried again. A
        packet that ``wakes`` ends with waking another client, which may have died meanwhile.
        """
        if self._abandoned:
            await self.end_abandoned(self._abandoned)
        for attempt in range(1, TRIES + 1):
            connection = self._fresh() or await self.lend()
            clean = False
            try:
                replies = await connection.query(sql, self._settings.request_timeout)
                clean = True
                return replies[:-1] if wakes else replies
            except Unavailable:  # it had ended in the pool, and nothing was sent
                clean = True
                if attempt == TRIES or self._closed or self._world.limit() <= self._world.now():
                    raise
            except ServerError as error:
                if not wakes or len(error.replies) != sql.count(";"):  # no literal has one
                    await self._roll_back(connection, sql)
                    clean = True
                    if error.code != DEADLOCK or attempt == TRIES:
                        raise refused(error, self._settings.where) from error
                    continue
                clean = True
                return error.replies
            finally:
                self._take_back(connection, clean)
        raise AssertionError("unreachable")

    def _take_back(self, connection: Connection, clean: bool) -> None:
        """Have a connection back. In asyncio a caller is interrupted only while it queries."""
        if not clean and (connection.is_closed or not self._world.cancels):
            if self._orderly:
                self._abandoned.add(connection.identity_lock)
            self._forget(connection)
        else:
            self.give_back(connection)

    async def end_abandoned(self, abandoned: set[str]) -> None:
        """End the sessions of which nobody knows what they still do: nothing may overtake them.

        Whoever has the identity lock is that session; when it is free, all that was sent to it has
        ended.
        """
        for identity_lock in list(abandoned):
            give_up = self._world.now() + END_S
            while not await self._has_ended(identity_lock):
                if self._world.now() >= min(give_up, self._world.limit()):
                    raise Unavailable(
                        f"{self._settings.where} is still busy with an earlier request of this "
                        "client that was not answered; nothing more was sent. Try again"
                    )
                await sleep(self._world, ENDING_S)
            abandoned.discard(identity_lock)

    async def _has_ended(self, identity_lock: str) -> bool:
        connection, clean = self._fresh() or await self.lend(), False
        try:
            (reply,) = await connection.query(
                f"SELECT IS_USED_LOCK({identity_lock})", self._settings.request_timeout
            )
            if reply.rows != [(None,)]:
                kill = f"KILL IS_USED_LOCK({identity_lock})"
                await connection.query(kill, self._settings.request_timeout)
            clean = True
            return reply.rows == [(None,)]
        except ServerError:
            clean = True
            return False  # it ends just now
        except OutcomeUnknown as error:
            raise Unavailable(f"{error}; nothing more was sent. Try again") from error
        finally:
            if clean or self._world.cancels:
                self.give_back(connection)
            else:
                self._forget(connection)

    async def _roll_back(self, connection: Connection, sql: str) -> None:
        """After an error a transaction may still be open, and its rows locked."""
        if "START TRANSACTION" in sql:
            await connection.query("ROLLBACK", self._settings.request_timeout)

    def _fresh(self) -> Connection | None:
        """A connection that was used just now: as ``lend`` gives, at a fraction of its cost."""
        with self._mutex:
            if not self._free:
                return None
            connection, used_at = self._free[-1]
            if connection.is_closed or self._world.now() - used_at >= FRESH_S:
                return None
            self._free.pop()
            return connection

    async def lend(self) -> Connection:
        """Have a connection that works, as far as can be seen without a request."""
        give_up = 0.0
        while True:
            waiter = self._reserve()
            if waiter.connection is None and waiter.slot is None:
                give_up = give_up or self._world.now() + self._settings.request_timeout
                await self._wait(waiter, give_up)
            if waiter.slot is not None:
                return await self._connect_in(waiter.slot)
            if waiter.connection is None:
                continue  # there is room for a new one
            connection, used_at = waiter.connection
            waiter.connection = None
            fresh = self._world.now() - used_at < FRESH_S
            if not (connection.is_closed if fresh else connection.closed_by_server()):
                return connection
            self._forget(connection)

    def _reserve(self) -> _Waiter:
        """Have a connection, or the right to make one, or join the queue for either."""
        with self._mutex:
            if self._closed:
                raise Unavailable("the client is closed; nothing was sent")
            if self._free:  # the last one used: the others may fall asleep
                return _Waiter(self._free.pop())
            if len(self._taken) < self._size:
                slot = Slot()
                self._taken.add(slot)
                return _Waiter(slot=slot)
            waiter = _Waiter()
            waiter.signal = self._world.signal()
            self._queue.append(waiter)
            return waiter

    async def _wait(self, waiter: _Waiter, give_up: float) -> None:
        assert waiter.signal is not None
        woken = False
        try:
            while not woken and len(self._taken) >= self._size and waiter.connection is None:
                now = self._world.now()
                if now >= min(give_up, self._world.limit()):
                    raise Unavailable(
                        f"all connections to {self._settings.where} were in use for "
                        f"{self._settings.request_timeout:g} s; nothing happened. Allow more: pool="
                    )
                woken = await self._world.wait(waiter.signal, min(give_up, now + LOOK_S))
            woken = True
        finally:
            if not self._leave(waiter) and not woken:  # woken just now
                if waiter.connection is None:
                    self._wake_first()
                else:
                    self.give_back(waiter.connection[0])
                waiter.connection = None

    def _leave(self, waiter: _Waiter) -> bool:
        """Leave the queue; False when it was woken before."""
        with self._mutex:
            if waiter in self._queue:
                self._queue.remove(waiter)
                return True
            return False

    async def _connect_in(self, slot: Slot) -> Connection:
        try:
            connection = await self._wire.connect(self._world, self._settings)
            self._taken.add(connection)
            return connection
        finally:
            self._taken.discard(slot)
            if len(self._taken) < self._size:
                self._wake_first()

    def give_back(self, connection: Connection) -> None:
        """Have a connection back; one that failed is forgotten.

        It goes to whoever has waited longest. If it lay there for anybody, a caller that comes
        again at once would always be first, and those who wait would starve.
        """
        if connection.is_closed or self._closed:
            self._forget(connection)
            return
        with self._mutex:
            back = (connection, self._world.now())
            if not self._queue:
                self._free.append(back)
                return
            waiter = self._queue.popleft()
            waiter.connection = back
        waiter.wake()

    def _forget(self, connection: Connection) -> None:
        connection.close()
        self._taken.discard(connection)
        self._wake_first()

    def _wake_first(self) -> None:
        """Let the first in the queue see whether there is room."""
        if not self._queue:
            return
        with self._mutex:
            waiter = self._queue.popleft() if self._queue else None
        if waiter is not None:
            waiter.wake()

    def close(self) -> None:
        """Close all connections, those that are lent as soon as they come back."""
        with self._mutex:
            self._closed = True
        while self._free:
            self._free.pop()[0].close()
        while self._queue:
            self._wake_first()
