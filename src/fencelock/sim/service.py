"""The lock service, simulated: clients, two nodes that do not know each other, a store.

The client engine is the package's own, and so are the handlers, tickets and everything else in a
node; between them is a simulated network, which carries calls and answers. Sockets and the ASGI
application are left out. The store is that of ``StoreBackend``, behind datagrams.

A node freezes, is killed and restarts with an empty memory, and is cut off from its clients or
from the store. Where messages are doubled, so are calls, as by a proxy that retries: the copy
arrives up to seconds later, at the same node, and its answer is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from ..engine import Address, Engine
from ..engines._http import wire
from ..engines._http.errors import silent, unreachable
from ..engines._http.wire.connection import Connect
from ..engines._http.wire.connection import Node as Address_
from ..engines._http.wire.http1 import Response
from ..engines.http.engine import HttpEngine
from ..engines.http.messages import id_of
from ..engines.memory import MemoryEngine
from ..service import calls
from ..service.access import ANONYMOUS, Access
from ..service.call import Answer, Call
from ..service.events import Events
from ..service.handlers import Service
from ..service.node import Limits, Node, owner_of
from ..service.problems import Problem
from ..service.tickets import Tickets
from ..world import World
from .connection import Connection, Server
from .network import Action, Host, Network
from .store import Remote, StoreBackend
from .tasks import Flag
from .world import SimWorld

PORT = 80
COPY_S = 2.0  # a copy of a call arrives at most this much later
_encode = msgspec.json.Encoder().encode


class Sent(NamedTuple):
    """A call as it is sent over the network."""

    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]


class _Audit:
    """An audit log that drops everything."""

    writable = True

    def write(self, event: str, identity: str, peer: str, facts: Mapping[str, object]) -> None:
        return None


class _Reached(Remote):
    """The store, as a node reaches it: on another machine, and known to all nodes."""

    traits = MemoryEngine.traits._replace(scope="network", portable=True)


class ServiceNode(Server):
    """One process of the service."""

    _connections: dict[Connection, Call | None]
    """The open connections, each with its call that may wait, or None."""

    def __init__(self, backend: ServiceBackend, name: str) -> None:
        self._backend = backend
        self._simulation = backend.network.simulation
        self._starts = 0
        self.world: SimWorld = self._simulation.world(name)
        super().__init__(name)
        self.watchers: list[Action] = []
        self.restart(forgets=True)

    @property
    def is_paused(self) -> bool:
        return self._paused

    @is_paused.setter
    def is_paused(self, paused: bool) -> None:
        self._paused = paused
        (self.world.pause if paused else self.world.resume)()

    @property
    def ahead(self) -> float:
        """Seconds by which its wall clock is ahead, which nothing reads."""
        return self.world.wall_ahead

    @ahead.setter
    def ahead(self, seconds: float) -> None:
        self.world.wall_ahead = seconds

    def restart(self, forgets: bool) -> None:
        """Start a new process with an empty memory, whatever ``forgets`` is."""
        self._starts += 1
        name, (ahead, pace) = f"{self.name}.{self._starts}", self._backend.clock(self.name)
        self.world = self._simulation.world(name, ahead=ahead, pace=pace)
        self.is_down = False
        engine = _Reached(self._backend, self.world, self)
        node = Node(self.world, engine, Access(None), _Audit(), Limits())
        self.service = Service(node, Tickets(node), Events(node))
        self._simulation.start(node.tick(), self.world, "tick")
        self._simulation.start(self.service.tickets.sweep(), self.world, "sweep")

    def crash(self) -> None:
        """Crash: all connections are lost, and new ones are refused."""
        self.world.crash()
        self.is_down = True
        self._paused, self.mail = False, []
        for connection in self._connections:
            connection.down.send(partial(connection.lost, "the node is gone"))
        self._connections = {}

    def waiting(self) -> list[str]:
        """Return the clients with a call here that may wait, as a poll does."""
        return [connection.client for connection, call in self._connections.items() if call]

    # What a connection calls on its server

    def receive(self, connection: Connection, payload: Sent) -> None:
        if connection not in self._connections:
            connection.down.send(partial(connection.lost, "reset by the node"))
            return
        self._simulation.start(self._serve(connection, payload), self.world, "serve")

    def leave(self, connection: Connection) -> None:
        """Forget a connection that its client has closed; a call that waits is told."""
        call = self._connections.pop(connection, None)
        if call is not None:
            call.hang_up()

    def copy(self, sent: Sent) -> None:
        """Serve a call a second time and drop the answer."""
        if not self.is_down:
            self._simulation.start(self._serve(None, sent), self.world, "copy")

    async def _serve(self, connection: Connection | None, sent: Sent) -> None:
        """Serve a call as the ASGI application does: see ``service/app.py``."""
        node = self.service.node
        path, _, query = sent.target.partition("?")
        exact = sent.headers.get("fencelock-names") == "exact"
        resolves = sent.headers.get("fencelock-undelivered") == "keep"
        now, wake = node.world.now(), node.world.signal()
        words = dict(parse_qsl(query))
        call = Call(ANONYMOUS, "peer", words, now, wake, exact=exact, resolves=resolves)
        try:
            entry = calls.find(path, sent.method)
            if entry.waits and connection is not None and connection in self._connections:
                self._connections[connection] = call
            answer = await calls.answer(self.service, entry, call, sent.body or b"")
        except Problem as problem:
            answer = Answer(problem.body(), problem.status)
        is_gone = connection is not None and connection not in self._connections
        if answer.undelivered is not None and is_gone:
            await answer.undelivered()
        node.finish(call)
        if connection is not None and connection in self._connections:
            self._connections[connection] = None
            connection.down.carry(Response(answer.status, _encode(answer.body)))


class Edge:
    """How one client reaches the nodes."""

    def __init__(self, network: Network, host: Host, nodes: dict[str, ServiceNode]) -> None:
        self.network = network
        self.host = host
        self.nodes = nodes
        self._closing: list[SimConnection] = []

    def close(self, connection: SimConnection) -> None:
        """Close a connection now, after those made before it: a pool closes them in no order."""
        self._closing.append(connection)
        if len(self._closing) == 1:
            simulation = self.network.simulation
            simulation.at(simulation.now, self._close_all)

    def _close_all(self) -> None:
        closing, self._closing = self._closing, []
        for connection in sorted(closing, key=lambda one: one.number):
            connection.drop("the client was closed")


class SimConnection:
    """One connection of a client to a node."""

    def __init__(
        self, world: SimWorld, node: ServiceNode, where: str, headers: Mapping[str, str]
    ) -> None:
        self._world = world
        self._headers = headers
        self._edge: Edge = world.edge
        self._node = node
        self._where = where
        self._response: Response | None = None
        self.changed = Flag()
        """Set when a response arrives or the connection is established or broken."""
        self.is_closed = False
        self.number = world.simulation.steps
        network = self._edge.network
        self._connection = Connection(network, self._edge.host, node, self._received, self._ended)

    async def dial(self, timeout: float) -> None:
        world = self._world
        self._connection.dial(self.changed.set)
        await world.wait(self.changed, min(world.now() + timeout, world.limit()))
        if not self._connection.is_established or self.is_closed:
            self.drop("no answer")
            raise unreachable(self._where, "no answer in time")

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        world, sent = self._world, Sent(method, target, body, self._headers)
        if self.is_closed:
            raise unreachable(self._where, "the connection is closed")
        self._response = None
        self.changed.clear()
        try:
            await world.simulation.turn()
            self._connection.send(sent)
            self._double(sent)
            await world.wait(self.changed, world.now() + timeout)
        except BaseException:
            self.drop("its caller was cancelled")
            raise
        if self._response is None:
            self.drop("no answer in time")
            raise silent(self._where, "no answer")
        return self._response

    def _double(self, sent: Sent) -> None:
        """Draw whether the call arrives a second time, later. Not a call that is answered at once
        when the lock is busy: that ends no attempt, so a copy may be granted later, to nobody, and
        hold the lock for a ttl. Nor does the copy of an acquire arrive after its lease can have
        ended: nothing tells it from another attempt.
        """
        body = json.loads(sent.body or b"{}")
        wants = [body] if sent.target.endswith("/acquire") else body.get("wants", [])
        if sent.target.endswith("/acquire") and not body.get("keep"):
            return
        latest = min(COPY_S, *(want.get("ttl", COPY_S) / 2 for want in wants), COPY_S)
        network, node = self._edge.network, self._node
        conditions = network.conditions
        way = (self._edge.host.name, node.name)
        if network.happens(conditions.copied or conditions.doubled, way):
            later = network.simulation.now + latest * network.stream(way)() ** 2
            network.simulation.at(later, lambda: node.deliver(partial(node.copy, sent)))

    def _received(self, response: Any) -> None:
        self._response = response
        self.changed.set()

    def _ended(self, why: str) -> None:
        self.is_closed = True
        self.changed.set()

    def drop(self, why: str) -> None:
        self.is_closed = True
        self._connection.close()
        self.changed.set()

    def closed_by_node(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._edge.close(self)


async def _connect(
    world: World, node: Address_, headers: tuple[tuple[str, str], ...]
) -> SimConnection:
    assert isinstance(world, SimWorld)
    connection = SimConnection(world, world.edge.nodes[node.host], node.where, dict(headers))
    try:
        await connection.dial(node.connect_timeout)
    except BaseException:
        connection.drop("its caller was cancelled")
        raise
    return connection


class ServiceBackend(StoreBackend):
    """Two nodes in front of the store."""

    names: tuple[str, ...] = ("node-0", "node-1")
    """The names of the nodes."""
    detection_bound_s = 1.5
    is_tiered = True

    def _hosts(self) -> list[Any]:
        store = super()._hosts()
        self.hosts = store  # the nodes' constructors reach the store through it
        return [*store, *(ServiceNode(self, name) for name in self.names)]

    def clock(self, name: str) -> tuple[float, float]:
        """Draw how many seconds the clock of a node that starts is ahead, and its pace."""
        random = self.network.simulation.stream(f"clock {name}")
        pace = 1 + (random() - 0.5) * 0.006
        return random() * 1e5, pace

    def watch(self, changed: Action) -> None:
        self.node.watchers.append(changed)

    def owner(self, owner: str) -> str:
        return owner_of(ANONYMOUS.name, id_of(owner), self.name, None)

    def reach(self, world: SimWorld, host: Host) -> None:
        """Connect a process to the simulated network."""
        world.edge = Edge(self.network, host, {node.name: node for node in self.hosts[1:]})

    def engine(self, world: SimWorld, host: Host) -> Engine:
        self.reach(world, host)
        first = int(world.random() * len(self.names))
        names = self.names[first:] + self.names[:first]
        options = {"request_timeout": self.request_timeout, "connect_timeout": self.request_timeout}
        return HttpEngine(world, Address("http", tuple((n, PORT) for n in names), options=options))


class SteadyBackend(ServiceBackend):
    """A ServiceBackend whose nodes are counted from 1 and have exact clocks."""

    names = ("node-1", "node-2")

    def clock(self, name: str) -> tuple[float, float]:
        return 0.0, 1.0


def _simulated() -> Connect:
    return _connect


def install() -> None:
    """Register the simulator's connections with the engine."""
    wire.CONNECTS["sim"] = _simulated


install()
