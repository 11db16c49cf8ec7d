"""The fan-out of the simulated network: one request to several nodes at once, as Redlock needs."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any

from ..engines.redis.scripts import Script
from ..engines.redis.settings import Settings
from ..engines.redis.wire.connection import CLOSED, cannot_connect
from ..engines.redlock.fanout import Broadcast, Fanout, NodeConnection
from ..engines.redlock.settings import CONNECT_S
from ..errors import Unavailable
from .connection import Connection
from .network import Host, Network
from .nodes import Node
from .tasks import Flag
from .world import SimWorld


class Edge:
    """How one client reaches the nodes."""

    def __init__(self, network: Network, host: Host, nodes: dict[str, Node]) -> None:
        self.network = network
        self.host = host
        self.nodes = nodes
        self.on_broadcast: Callable[[Broadcast], object] | None = None
        """Called with each request to several nodes, if an observer has set it."""


class SimNode(NodeConnection):
    """The connection to one node of several."""

    connection: Connection | None = None


class SimFanout(Fanout[SimNode]):
    """The connections of one client to all nodes, for one purpose."""

    def __init__(
        self, edge: Edge, world: SimWorld, settings: Settings, scripts: Sequence[Script]
    ) -> None:
        nodes = [SimNode(index, address) for index, address in enumerate(settings.nodes)]
        super().__init__(settings, scripts, nodes, world.now)
        self._edge = edge
        self._world = world
        self._closed = False

    async def _send(self, broadcast: Broadcast, until: float, only: Container[int] | None) -> None:
        if self._closed:
            raise Unavailable(CLOSED)
        settled = Flag()
        broadcast.wake = settled.set
        if self._edge.on_broadcast is not None:
            self._edge.on_broadcast(broadcast)
        try:
            self._begin(broadcast, only)
            if not broadcast.settled:
                await self._world.wait(settled, until)
        finally:
            self._end(broadcast)

    def _write(self, node: SimNode, payload: bytes) -> None:
        if node.connection is not None:
            node.connection.send(payload)

    def _start_connecting(self, node: SimNode) -> None:
        edge = self._edge
        connection = Connection(
            edge.network,
            edge.host,
            edge.nodes[node.address[0]],
            partial(self._received, node),
            lambda why: self._lost(node, connection, why),
        )
        node.connection, node.connecting = connection, True
        connection.dial(lambda: self._connected(node))
        give_up = partial(self._give_up_dialing, node, connection)
        simulation = edge.network.simulation
        simulation.at(simulation.now + CONNECT_S, lambda: edge.host.deliver(give_up))

    def _give_up_dialing(self, node: SimNode, connection: Connection) -> None:
        if not connection.is_established:
            connection.lost("no answer in time")

    def _received(self, node: SimNode, replies: list[Any]) -> None:
        self._replied(node, [False, *reversed(replies)].pop)

    def _lost(self, node: SimNode, connection: Connection, why: str) -> None:
        if node.connection is not connection:
            return
        node.connection = None
        if connection.is_established:
            self._broken(node, why)
        else:
            self._unreachable(node, cannot_connect(node.address, ConnectionError(why)))

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closed = True
        self._give_up()
        for node in self._nodes:
            if node.connection is not None:
                connection, node.connection = node.connection, None
                connection.close()
                self._broken(node, "closed")
