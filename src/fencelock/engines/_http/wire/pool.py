"""A few connections to one node, used again, and lent to one caller at a time.

An exception of a signal handler may end a caller between any two steps. So room is not counted up
and down: a connection, or the right to make one, takes room for as long as somebody knows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

from ....errors import Unavailable
from ....wires.room import Room, Slot
from ....world import Signal, World
from ..errors import unreachable
from .connection import Connect, Connection, Node
from .http1 import Response

IDLE_S = 50.0  # a node closes a connection that is idle for longer than a minute
LOOK_S = 0.1  # how often who waits for a connection looks whether one was lost


class Pool:
    """At most so many connections; who comes when all are lent waits."""

    def __init__(
        self,
        world: World,
        connect: Connect,
        node: Node,
        headers: Callable[[], tuple[tuple[str, str], ...]],
        size: int,
    ) -> None:
        self._world = world
        self._connect = connect
        self.node = node
        self._headers = headers
        self._size = size
        self._free: deque[tuple[Connection, float]] = deque()
        self._taken = Room()
        """All connections, and the rights to make one."""
        self._queue: deque[Signal] = deque()
        self._mutex = world.mutex()
        self._closed = False

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        """Make a call on any connection. Nothing is sent twice."""
        connection = await self._lend(timeout)
        try:
            return await connection.call(method, target, body, timeout)
        finally:
            self._give_back(connection)

    async def _lend(self, timeout: float) -> Connection:
        give_up = min(self._world.now() + timeout, self._world.limit())
        while True:
            found = self._reserve()
            if isinstance(found, Slot):
                return await self._connect_in(found)
            if found is not None:
                connection, used_at = found
                if not connection.closed_by_node() and self._world.now() - used_at < IDLE_S:
                    return connection
                self._forget(connection)
                continue
            await self._wait(give_up, timeout)

    def _reserve(self) -> tuple[Connection, float] | Slot | None:
        """Have a connection, or the right to make one, or nothing where all are lent."""
        with self._mutex:
            if self._closed:
                raise Unavailable("the client is closed; nothing was sent")
            if self._free:  # the last one used: the others may be closed
                return self._free.pop()
            if len(self._taken) < self._size:
                slot = Slot()
                self._taken.add(slot)
                return slot
            return None

    async def _wait(self, give_up: float, timeout: float) -> None:
        if self._world.now() >= give_up:
            raise unreachable(
                self.node.where,
                f"all {self._size} connections were in use for {timeout:g} s: allow more by pool=",
            )
        signal = self._world.signal()
        self._queue.append(signal)
        woken = False
        try:
            woken = await self._world.wait(signal, min(give_up, self._world.now() + LOOK_S))
        finally:
            with self._mutex:
                if signal in self._queue:
                    self._queue.remove(signal)
                elif not woken:
                    self._wake_first()  # it was woken just now, and leaves

    async def _connect_in(self, slot: Slot) -> Connection:
        try:
            connection = await self._connect(self._world, self.node, self._headers())
            self._taken.add(connection)
        finally:
            self._taken.discard(slot)
        if self._closed:
            connection.close()
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.is_closed or self._closed:
            self._forget(connection)
            return
        self._free.append((connection, self._world.now()))
        self._wake_first()

    def _forget(self, connection: Connection) -> None:
        connection.close()
        self._taken.discard(connection)
        self._wake_first()

    def _wake_first(self) -> None:
        if self._queue:
            try:
                self._queue.popleft().set()
            except IndexError:
                pass  # another was first

    def renew(self) -> None:
        """Let go of the connections that nobody uses: the next call makes a new one."""
        while self._free:
            self._forget(self._free.pop()[0])

    def close(self) -> None:
        """Close all connections: whoever waits for an answer gets none."""
        with self._mutex:
            self._closed = True
        for connection in self._taken.living():
            if not isinstance(connection, Slot):
                cast("Connection", connection).close()
