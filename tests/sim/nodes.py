"""Simulated servers: models of Redis behind connections, which freeze, restart and mistell time."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import hiredis

from fencelock.worlds.sim import WALL_S
from tests.sim.model_redis import ModelRedis
from tests.sim.network import Action, Host, Network, Pipe

Heard = Callable[[list[Any]], None]
Ended = Callable[[str], None]


_reader = hiredis.Reader()  # for all servers: what arrives is always whole


@lru_cache(maxsize=16)
def parsed(payload: bytes) -> list[list[bytes]]:
    """The requests of a message. Several servers are often sent the very same."""
    _reader.feed(payload)
    requests: list[list[bytes]] = []
    while words := _reader.gets():
        requests.append(words)
    return requests


class Node(Host):
    """One server with a clock of its own."""

    def __init__(self, network: Network, name: str, ahead: float, pace: float) -> None:
        super().__init__(name)
        self._simulation = network.simulation
        self._pace = pace
        self.ahead = ahead
        """Seconds by which its clock is wrong; set it to make that clock step."""
        self.model = ModelRedis(self.wall_us)
        self.model.publish = self._publish
        self._connections: dict[Connection, None] = {}
        self._channels: dict[bytes, dict[Connection, None]] = {}
        self.watchers: list[Callable[[], object]] = []
        """Called when the server has served something."""

    def wall_us(self) -> int:
        return int((WALL_S + self.ahead + self._pace * self._simulation.now) * 1e6)

    def deliver(self, action: Action) -> None:
        """A machine answers for a process that is gone: what comes for it is refused."""
        if self.is_paused:
            self.mail.append(action)
        else:
            action()

    def accept(self, connection: Connection) -> None:
        if self.is_down:
            connection.down.send(partial(connection.lost, "refused"))
            return
        self._connections[connection] = None
        connection.down.send(connection.established)

    def receive(self, connection: Connection, payload: bytes) -> None:
        """Serve requests, all at once and in one step."""
        if connection not in self._connections:  # it knows of no such connection: a reset
            connection.down.send(partial(connection.lost, "reset by the server"))
            return
        replies: list[Any] = []
        for words in parsed(payload):
            is_plain = words[0] != b"SUBSCRIBE"
            replies.append(
                self.model.execute(words) if is_plain else self._subscribe(connection, words[1])
            )
        connection.down.send(partial(connection.heard, replies))
        for watch in self.watchers:
            watch()

    def _subscribe(self, connection: Connection, channel: bytes) -> list[Any]:
        self._channels.setdefault(channel, {})[connection] = None
        return [b"subscribe", channel, 1]

    def _publish(self, channel: bytes, message: bytes) -> int:
        listeners = list(self._channels.get(channel, ()))
        for connection in listeners:
            connection.down.send(partial(connection.heard, [[b"message", channel, message]]))
        return len(listeners)

    def leave(self, connection: Connection) -> None:
        """The other end has closed."""
        self._connections.pop(connection, None)
        for listeners in self._channels.values():
            listeners.pop(connection, None)

    def crash(self) -> None:
        """All connections are gone, and whoever comes is refused."""
        self.is_down = True
        self.is_paused, self.mail = False, []
        for connection in self._connections:
            connection.down.send(partial(connection.lost, "the server is gone"))
        self._connections, self._channels = {}, {}

    def restart(self, forgets: bool) -> None:
        """Serve again, with all data or with none."""
        self.is_down = False
        if forgets:
            self.model.forget()


class Connection:
    """A client's connection to a node. It tells of its end once."""

    def __init__(
        self, network: Network, client: Host, node: Node, heard: Heard, ended: Ended
    ) -> None:
        self._network = network
        self._node = node
        self._client = client
        self.up = Pipe(network, client, node)
        self.down = Pipe(network, node, client)
        self._heard, self._ended = heard, ended
        self.is_open = True
        self.is_established = False
        self.on_established: Callable[[], object] = bool

    def dial(self, established: Callable[[], object]) -> None:
        """Begin to connect; it ends in a call of one or the other."""
        self.on_established = established
        self.up.send(partial(self._node.accept, self))

    def established(self) -> None:
        if self.is_open:
            self.is_established = True
            self.on_established()

    def send(self, payload: bytes) -> None:
        """Send requests; the replies come by themselves, or the end does."""
        if not self.is_open:
            return
        arrive = partial(self._node.receive, self, payload)
        breaks = self._network.conditions.breaks
        if breaks and self._network.happens(breaks):
            if self._network.happens(0.5):
                self.up.send(arrive)
            self._break()
            return
        self.up.send(arrive)

    def _break(self) -> None:
        """The connection breaks; neither end hears anything more from the other."""
        self.down.broken = True
        farewell = Pipe(self._network, self._node, self._client)
        farewell.send(partial(self.lost, "broken"))
        self.up.send(partial(self._node.leave, self))

    def heard(self, replies: list[Any]) -> None:
        if self.is_open:
            self._heard(replies)

    def lost(self, why: str) -> None:
        if self.is_open:
            self.is_open = False
            self._ended(why)

    def close(self) -> None:
        """Close this end; what was sent before still arrives."""
        if self.is_open:
            self.is_open = False
            self.up.send(partial(self._node.leave, self))
