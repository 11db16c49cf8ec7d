"""The rounds of the simulated network: one request to several nodes at once, as Redlock needs."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any

from fencelock.engines.redis.redlock_settings import CONNECT_S
from fencelock.engines.redis.round import Ask, Line, Round
from fencelock.engines.redis.rounds import Rounds
from fencelock.engines.redis.scripts import Script
from fencelock.engines.redis.settings import Settings
from fencelock.engines.redis.wire import CLOSED, cannot_connect
from fencelock.errors import Unavailable
from fencelock.sim.tasks import Flag
from fencelock.sim.world import SimWorld
from tests.sim.network import Host, Network
from tests.sim.nodes import Connection, Node


class Way:
    """How one client reaches the nodes."""

    def __init__(self, network: Network, host: Host, nodes: dict[str, Node]) -> None:
        self.network = network
        self.host = host
        self.nodes = nodes


class SimRoundLine(Line):
    """The way to one node of several."""

    connection: Connection | None = None


class SimRounds(Rounds[SimRoundLine]):
    """The connections of one client to all nodes, for one lane."""

    def __init__(
        self, edge: Way, world: SimWorld, settings: Settings, scripts: Sequence[Script]
    ) -> None:
        lines = [SimRoundLine(place, node) for place, node in enumerate(settings.nodes)]
        super().__init__(settings, scripts, lines, world.now)
        self._edge = edge
        self._world = world
        self._closed = False

    async def ask(
        self,
        ask: Ask | bytes,
        cast: Callable[[Any], bool],
        until: float,
        kept_until: float = 0.0,
        places: Container[int] | None = None,
    ) -> Round:
        if self._closed:
            raise Unavailable(CLOSED)
        round = Round(len(self._lines), ask, cast, kept_until)
        settled = Flag()
        round.wake = settled.set
        try:
            self._begin(round, places)
            if not round.settled:
                await self._world.wait(settled, until)
        finally:
            self._end(round)
        return round

    def _write(self, line: SimRoundLine, payload: bytes) -> None:
        if line.connection is not None:
            line.connection.send(payload)

    def _dial(self, line: SimRoundLine) -> None:
        edge = self._edge
        connection = Connection(
            edge.network,
            edge.host,
            edge.nodes[line.node[0]],
            partial(self._received, line),
            lambda why: self._lost(line, connection, why),
        )
        line.connection = connection
        connection.dial(lambda: self._connected(line))
        give_up = partial(self._give_up_dialing, line, connection)
        simulation = edge.network.simulation
        simulation.at(simulation.now + CONNECT_S, lambda: edge.host.deliver(give_up))

    def _give_up_dialing(self, line: SimRoundLine, connection: Connection) -> None:
        if not connection.is_established:
            connection.lost("no answer in time")

    def _received(self, line: SimRoundLine, replies: list[Any]) -> None:
        self._heard(line, [False, *reversed(replies)].pop)

    def _lost(self, line: SimRoundLine, connection: Connection, why: str) -> None:
        if line.connection is not connection:
            return
        line.connection = None
        if connection.is_established:
            self._broken(line, why)
        else:
            self._unreachable(line, cannot_connect(line.node, ConnectionError(why)))

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closed = True
        self._give_up()
        for line in self._lines:
            if line.connection is not None:
                connection, line.connection = line.connection, None
                connection.close()
                self._broken(line, "closed")
