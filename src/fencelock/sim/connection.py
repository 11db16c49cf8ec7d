"""A client's connection to a simulated server: established, used both ways, broken or closed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from .network import Action, Host, Network

OnReceive = Callable[[Any], None]
Ended = Callable[[str], None]


class Server(Host):
    """A host that accepts connections."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._connections: dict[Connection, Any] = {}
        """The open connections, each with what the server keeps for it."""

    def deliver(self, action: Action) -> None:
        """Handle a message even if the process is down: its machine refuses what arrives."""
        if self.is_paused:
            self.mail.append(action)
        else:
            action()

    def accept(self, connection: Connection) -> None:
        """Establish or refuse a new connection, and tell its client which."""
        if self.is_down:
            connection.down.send(partial(connection.lost, "refused"))
            return
        self._connections[connection] = None
        connection.down.send(connection.established)

    @abstractmethod
    def receive(self, connection: Connection, payload: Any) -> None:
        """Serve the requests that arrived on a connection."""

    @abstractmethod
    def leave(self, connection: Connection) -> None:
        """Forget a connection that its client has closed."""


class Connection:
    """A client's connection to a server. It reports its end once, unless the client closed it."""

    def __init__(
        self, network: Network, client: Host, node: Server, on_receive: OnReceive, ended: Ended
    ) -> None:
        self._network = network
        self._node = node
        self._client = client
        self.up = network.pipe(client, node, partial(node.receive, self))
        self.down = network.pipe(node, client, on_receive)
        self.send: Callable[[Any], None] = self.up.carry
        """Sends requests; replies go to ``on_receive``, the connection's end to ``ended``."""
        if network.conditions.breaks:
            self.send = self._carry_or_break
        self._ended = ended
        self.is_open = True
        self.is_established = False
        self.on_established: Callable[[], object] = bool

    @property
    def client(self) -> str:
        """The name of the host that opened the connection."""
        return self._client.name

    def dial(self, established: Callable[[], object]) -> None:
        """Begin to connect; ``established`` is called on success, ``ended`` on failure."""
        self.on_established = established
        self.up.send(partial(self._node.accept, self))

    def established(self) -> None:
        if self.is_open:
            self.is_established = True
            self.on_established()

    def _carry_or_break(self, payload: object) -> None:
        way = (self._client.name, self._node.name)
        if self._network.happens(self._network.conditions.breaks, way):
            if self._network.happens(0.5, way):
                self.up.carry(payload)
            self._break()
        else:
            self.up.carry(payload)

    def _break(self) -> None:
        """Break the connection; neither end receives anything more from the other."""
        self.down.broken = True
        farewell = self._network.pipe(self._node, self._client, _ignore)
        farewell.send(partial(self.lost, "broken"))
        self.up.send(partial(self._node.leave, self))

    def lost(self, why: str) -> None:
        if self.is_open:
            self._shut()
            self._ended(why)

    def close(self) -> None:
        """Close this end; what was sent before still arrives."""
        if self.is_open:
            self._shut()
            self.up.send(partial(self._node.leave, self))

    def _shut(self) -> None:
        """Receive and send nothing any more."""
        self.is_open = False
        self.send = _ignore
        self.down.take = _ignore


def _ignore(what: object) -> None:
    """Drop a message: the receiving end is closed."""
