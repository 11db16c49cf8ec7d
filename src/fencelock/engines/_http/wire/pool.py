"""A pool of connections to one node, each lent to one caller at a time."""

from __future__ import annotations

from collections.abc import Callable

from ....errors import Unavailable
from ....world import World
from ...lending_pool import LendingPool
from ..errors import unreachable
from .connection import Connect, Connection, Node
from .http1 import Response

IDLE_S = 50.0  # a node closes a connection that is idle for longer than a minute


class _Member:
    """A connection, and when it was last used; None if it is new."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.used_at: float | None = None


class Pool:
    """At most ``size`` connections; a caller waits while all are lent."""

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
        self._members = LendingPool[_Member](world, self._new_member, size)
        self._closed = False

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        """Send a request over any connection, and return its response. Nothing is sent twice."""
        member = await self._lend(timeout)
        if self._closed:  # perhaps before this connection was in the pool
            member.connection.close()
        try:
            return await member.connection.call(method, target, body, timeout)
        finally:
            self._give_back(member)

    async def _lend(self, timeout: float) -> _Member:
        give_up = min(self._world.now() + timeout, self._world.limit())
        while not self._closed:
            member = await self._members.lend(give_up)
            if member is None:
                raise unreachable(
                    self.node.where,
                    f"all {self._size} connections were in use for {timeout:g} s: "
                    "allow more by pool=",
                )
            if member.used_at is None or self._is_alive(member.connection, member.used_at):
                return member
            self._forget(member)
        raise Unavailable("the client is closed; nothing was sent")

    async def _new_member(self) -> _Member:
        return _Member(await self._connect(self._world, self.node, self._headers()))

    def _is_alive(self, connection: Connection, used_at: float) -> bool:
        return not connection.closed_by_node() and self._world.now() - used_at < IDLE_S

    def _give_back(self, member: _Member) -> None:
        if member.connection.is_closed or self._closed:
            self._forget(member)
            return
        member.used_at = self._world.now()
        self._members.give_back(member)

    def _forget(self, member: _Member) -> None:
        member.connection.close()
        self._members.forget(member)

    def renew(self) -> None:
        """Close the idle connections: the next call makes a new one."""
        for member in self._members.drain():
            member.connection.close()

    def close(self) -> None:
        """Close all connections: calls in progress end without a response."""
        self._closed = True
        for member in self._members.living():
            member.connection.close()
