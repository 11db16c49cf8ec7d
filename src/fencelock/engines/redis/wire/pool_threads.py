"""The connections of a blocking program: one for each server and purpose, for all its threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ....errors import OutcomeUnknown, Unavailable
from ....world import World
from ..settings import Node, Settings, where
from .connection import CLOSED, Purpose, packed, time_up
from .connection_threads import ENDED, Stale, ThreadsConnection, ThreadsSubscription

STALE_MAX = 10
ONE = b":1\r\n"  # the reply to most releases
READ_FEW = 256  # bytes for one short reply: a larger buffer takes longer to allocate


class ThreadsFastPath:
    """Requests of one reply to one server."""

    def __init__(self, pool: ThreadsPool, node: Node) -> None:
        self._pool = pool
        self._now, self._limit = pool.now, pool.limit
        self._node = node
        self._connection: ThreadsConnection | None = None

    def direct(self, payload: bytes, request_timeout: float) -> Any:
        """Do what ``ThreadsConnection.request`` does, in the fewest steps."""
        connection = self._connection
        if connection is None or not connection.usable:
            return self._reach(payload, request_timeout)
        limit, now = self._limit, self._now
        if (left := limit() - now()) < request_timeout:
            if left <= 0:
                raise time_up(self._node)
            request_timeout = left
        if not connection.turn.acquire(False):
            try:
                return connection.queue_up(payload, 1, request_timeout)[0]
            except Stale:
                return self._reach(payload, request_timeout)
        try:
            if (
                connection.owes
            ):  # the last thread with the turn was interrupted, and its reply is still to come
                connection.close()
            if connection.usable:
                if not connection.times_itself and request_timeout != connection.request_timeout:
                    connection.set_timeout(request_timeout)
                send, comes, receive, feed, gets = connection.calls
                connection.owes = True
                send(payload)
                while comes(request_timeout * 1000):
                    data = receive(READ_FEW)
                    if data == ONE:
                        connection.owes = False
                        return 1
                    if not data:
                        raise ConnectionResetError(ENDED)
                    feed(data)
                    if (reply := gets()) is not False:
                        connection.owes = False
                        return reply
                raise TimeoutError
        except BaseException as error:  # also when interrupted: no request may get a late reply
            connection.close()
            if isinstance(error, OSError):
                raise connection.unanswered(request_timeout, error) from error
            raise
        finally:
            if connection.queue:
                connection.leave()
            else:
                try:
                    connection.turn.release()
                except RuntimeError:
                    pass  # this thread was interrupted after it had released the turn
                if connection.queue:
                    connection.step_in()
        return self._reach(payload, request_timeout)

    def _reach(self, payload: bytes, request_timeout: float) -> Any:
        (reply,) = self._pool.request_now(self._node, payload, 1, request_timeout, "main")
        self._connection = self._pool.known(self._node, "main")
        return reply

    async def request(self, payload: bytes, request_timeout: float) -> Any:
        return self.direct(payload, request_timeout)


class ThreadsPool:
    """All connections of one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._settings = settings
        self.now, self.limit = world.now, world.limit
        self._connections: dict[tuple[Node, Purpose], ThreadsConnection] = {}
        self._connecting: dict[tuple[Node, Purpose], object] = {}
        self._sentinels = settings.nodes if settings.topology == "sentinel" else ()
        self._closed = False

    async def request(
        self, node: Node, payload: bytes, count: int, request_timeout: float, purpose: Purpose
    ) -> Sequence[Any]:
        return self.request_now(node, payload, count, request_timeout, purpose)

    def request_now(
        self, node: Node, payload: bytes, count: int, request_timeout: float, purpose: Purpose
    ) -> Sequence[Any]:
        """Do what ``request`` does, without an await."""
        for _ in range(STALE_MAX):
            connection = self._connections.get((node, purpose))
            if connection is None or not connection.usable:
                connection = self._connect(node, purpose)
            try:
                replies: list[Any] = connection.request(payload, count, request_timeout)
                return replies
            except Stale:
                pass  # it broke before anything was sent
        raise Unavailable(f"{where(node)} closes every connection; nothing happened")

    def left(self) -> float:
        """Seconds until the running call has to end."""
        return self.limit() - self.now()

    def fast_path(self, node: Node) -> ThreadsFastPath:
        return ThreadsFastPath(self, node)

    def known(self, node: Node, purpose: Purpose) -> ThreadsConnection | None:
        """Return the connection to a server, if there is one."""
        return self._connections.get((node, purpose))

    def _connect(self, node: Node, purpose: Purpose) -> ThreadsConnection:
        """Return a new connection: the first thread connects, the others wait for that."""
        mutex: Any = self._connecting.setdefault((node, purpose), threading.RLock())
        try:
            if not mutex.acquire(timeout=min(max(0.0, self.left()), threading.TIMEOUT_MAX)):
                raise time_up(node)
            connection = self._connections.get((node, purpose))
            if connection is not None and connection.usable:
                return connection
            if self._closed:
                raise Unavailable(CLOSED)
            connection = ThreadsConnection(self._settings, node, node in self._sentinels, self.left)
            self._connections[node, purpose] = connection
            return connection
        finally:  # a signal handler may raise anywhere, here too
            try:
                _free(mutex)
            finally:
                _free(mutex)

    async def subscribe(self, node: Node, channel: str) -> ThreadsSubscription:
        connection = ThreadsConnection(self._settings, node, left=self.left)
        try:
            connection.request(packed("SUBSCRIBE", channel), 1, self._settings.request_timeout)
            return ThreadsSubscription(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, OutcomeUnknown):
                raise Unavailable(str(error)) from error
            raise

    def drop(self, node: Node) -> None:
        for key in [key for key in list(self._connections) if key[0] == node]:
            connection = self._connections.pop(key, None)
            if connection is not None:
                connection.close()

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closed = True
        for node, _ in list(self._connections):
            self.drop(node)


def _free(mutex: Any) -> None:
    """Release a lock that this thread may have, as often as it holds it."""
    while mutex._is_owned():
        mutex.release()
