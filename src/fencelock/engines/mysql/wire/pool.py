"""The connections of one client: few, reused, and lent to one caller at a time.

An exception of a signal handler may end a caller between any two steps. So connections are not
counted up and down: one, or the right to open one, counts as long as a reference to it exists.
"""

from __future__ import annotations

from collections import deque

from ....errors import OutcomeUnknown, Unavailable
from ....wires.live_set import LiveSet, Slot
from ....world import Signal, World, sleep
from ..errors import DEADLOCK, refused
from ..settings import Settings
from .codec import Reply, ServerError
from .connection import Connection, Wire

FRESH_S = 1.0  # a connection that was used so lately is not checked before it is used again
TRIES = 10  # for statements that were rolled back in a deadlock
CHECK_S = 0.1  # how often a waiting caller checks whether a connection was lost
END_S = 1.0  # how long the server may take to end an abandoned session
ENDING_S = 0.01


class _Waiter:
    """A request for a connection: it waits, or was given a connection or a slot at once."""

    def __init__(
        self, connection: tuple[Connection, float] | None = None, slot: Slot | None = None
    ) -> None:
        self.connection = connection
        """The connection that it was given, and when that was last used."""
        self.slot = slot
        self.signal: Signal | None = None

    def wake(self) -> None:
        if self.signal is not None:
            self.signal.set()


class Pool:
    """A limited number of connections; when all are lent, a caller waits."""

    def __init__(
        self, world: World, settings: Settings, wire: Wire, size: int, orderly: bool = False
    ) -> None:
        """In an ``orderly`` pool no request overtakes one that its caller has abandoned."""
        self._world = world
        self._settings = settings
        self._wire = wire
        self._size = size
        self._orderly = orderly
        self._free: deque[tuple[Connection, float]] = deque()
        self._taken = LiveSet()
        """All connections, and the rights to open one."""
        self._abandoned: set[str] = set()
        """Sessions, by identity lock, whose last request may still run although its caller left."""
        self._mutex = world.mutex()
        self._queue: deque[_Waiter] = deque()
        self._closed = False

    async def query(self, sql: str, wakes: bool = False) -> list[Reply]:
        """Run statements on any connection.

        A statement that the server rolled back in a deadlock is tried again. A packet that
        ``wakes`` ends with waking another client, which may have died meanwhile.
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
                if not wakes or len(error.replies) != sql.count(";"):  # no literal has a ";"
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
        """Take a connection back, or forget it if its request may still run.

        In asyncio a caller is interrupted only while it queries.
        """
        if not clean and (connection.is_closed or not self._world.cancels):
            if self._orderly:
                self._abandoned.add(connection.identity_lock)
            self._forget(connection)
        else:
            self.give_back(connection)

    async def end_abandoned(self, abandoned: set[str]) -> None:
        """End abandoned sessions, whose last request may still run: nothing may overtake it.

        Only that session has its identity lock; when the lock is free, all that was sent to the
        session has ended.
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
            return False  # it is ending just now
        except OutcomeUnknown as error:
            raise Unavailable(f"{error}; nothing more was sent. Try again") from error
        finally:
            if clean or self._world.cancels:
                self.give_back(connection)
            else:
                self._forget(connection)

    async def _roll_back(self, connection: Connection, sql: str) -> None:
        """Roll back the transaction that a packet has begun: it may be open, with rows locked."""
        if "START TRANSACTION" in sql:
            await connection.query("ROLLBACK", self._settings.request_timeout)

    def _fresh(self) -> Connection | None:
        """Return a connection that was just used, as ``lend`` would at several times the cost."""
        with self._mutex:
            if not self._free:
                return None
            connection, used_at = self._free[-1]
            if connection.is_closed or self._world.now() - used_at >= FRESH_S:
                return None
            self._free.pop()
            return connection

    async def lend(self) -> Connection:
        """Return a connection that is alive, as far as can be seen without a request."""
        give_up = 0.0
        while True:
            waiter = self._reserve()
            if waiter.connection is None and waiter.slot is None:
                give_up = give_up or self._world.now() + self._settings.request_timeout
                await self._wait(waiter, give_up)
            if waiter.slot is not None:
                return await self._connect_in(waiter.slot)
            if waiter.connection is None:
                continue  # the pool has room for a new one
            connection, used_at = waiter.connection
            waiter.connection = None
            fresh = self._world.now() - used_at < FRESH_S
            if not (connection.is_closed if fresh else connection.closed_by_server()):
                return connection
            self._forget(connection)

    def _reserve(self) -> _Waiter:
        """Return a free connection, or a slot to open one, or join the queue for either."""
        with self._mutex:
            if self._closed:
                raise Unavailable("the client is closed; nothing was sent")
            if self._free:  # the one used last: the others may become idle
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
                woken = await self._world.wait(waiter.signal, min(give_up, now + CHECK_S))
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
        """Take a connection back; one that failed is forgotten.

        It goes to the caller that has waited longest. If it were simply free, a caller that comes
        again at once would always be first, and the waiting ones would starve.
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
        """Wake the first caller in the queue, which checks whether the pool has room."""
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
