"""Send calls to equivalent nodes: to one after the other, never to two at once.

A call goes to the node that served the last one. If that cannot be reached, or replies that nothing
happened because it cannot serve, the same call goes to the next node: it has taken no effect. A
call of which that is not certain, for lack of a response or by what the response says, is not sent
again here: the caller retries for the same owner, and that goes to the next node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

from ...errors import OutcomeUnknown, Unavailable
from ...wires.tls import Tls, context_of
from ...world import World
from .wire import connect_in
from .wire.connection import Node
from .wire.http1 import Response
from .wire.pool import Pool

Purpose: TypeAlias = Literal["calls", "renewals", "polls"]
PURPOSES: tuple[Purpose, ...] = ("calls", "renewals", "polls")
UNAUTHORIZED = 401
POLLS_MAX = 64  # connections to a node whose requests wait for a change


class Nodes:
    """The nodes that one client may call, and a pool for each node and purpose."""

    def __init__(
        self,
        world: World,
        addresses: Sequence[tuple[str, int]],
        tls: Tls | None,
        connect_timeout: float,
        pool: int,
        headers: Callable[[Node], tuple[tuple[str, str], ...]],
        has_failed: Callable[[Response], bool],
        is_undone: Callable[[Response], bool],
    ) -> None:
        """``has_failed`` tells from a response whether the node cannot serve, ``is_undone`` whether
        nothing happened and another node may be able to serve."""
        context = None if tls is None else context_of(tls, "http/1.1")
        nodes = [Node(*one, context, connect_timeout) for one in addresses]
        connect, sizes = connect_in(world), {"calls": pool, "renewals": 1}
        self._pools: dict[tuple[int, str], Pool] = {}
        for number, node in enumerate(nodes):
            for purpose in PURPOSES:
                size = sizes.get(purpose, POLLS_MAX)
                self._pools[number, purpose] = Pool(
                    world, connect, node, partial(headers, node), size
                )
        self._has_failed, self._is_undone = has_failed, is_undone
        self._count, self._current = len(nodes), 0
        """The number of nodes, and the index of the one that served last."""

    async def send(
        self, method: str, target: str, data: bytes | None, timeout: float, purpose: Purpose
    ) -> Response:
        """Return a node's response. Each is tried once at most, and only while nothing was done."""
        first, count = self._current, self._count
        for turn in range(count):
            number, left = (first + turn) % count, count - 1 - turn
            pool = self._pools[number, purpose]
            try:
                response = await pool.call(method, target, data, timeout)
            except Unavailable:
                self._leave(number)
                if not left:
                    raise
                continue
            except OutcomeUnknown:
                self._leave(number)
                raise
            if response.status == UNAUTHORIZED:
                pool.renew()  # the next connection reads the token, which may have been replaced
            if self._has_failed(response):
                self._leave(number)
                if left and self._is_undone(response):
                    continue
            return response._replace(where=pool.node.where)
        raise AssertionError("unreachable")

    def _leave(self, number: int) -> None:
        """Direct the next call to another node, unless one has been chosen meanwhile."""
        if self._current == number:
            self._current = (number + 1) % self._count

    def close_polls(self) -> None:
        """Close the connections of polls, and refuse new polls."""
        for (_, purpose), pool in self._pools.items():
            if purpose == "polls":
                pool.close()

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()
