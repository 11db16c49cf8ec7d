"""Simulated Redis servers that freeze, restart, lose data and have wrong clocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import hiredis

from .connection import Connection, Server
from .model_redis import Command, ModelRedis, understood
from .network import Network
from .world import WALL_S

PARSED_MAX = 16


class _Parser(threading.local):
    """Parses requests. Each thread has its own: runs in several threads must not share one."""

    def __init__(self) -> None:
        self._reader = hiredis.Reader()  # for all servers: a payload always holds whole requests
        self._parsed: dict[int, tuple[bytes, list[Command]]] = {}

    def requests(self, payload: bytes) -> list[Command]:
        found = self._parsed.get(id(payload))
        if found is not None:
            return found[1]
        self._reader.feed(payload)
        requests: list[Command] = []
        while words := self._reader.gets():
            requests.append(understood(words))
        if len(self._parsed) == PARSED_MAX:
            del self._parsed[next(iter(self._parsed))]
        self._parsed[id(payload)] = payload, requests  # held, so that its id is not used again
        return requests


_parser = _Parser()


def parsed(payload: bytes) -> list[Command]:
    """Return the requests of a message. Several servers are often sent the same object, which is
    recognized by its id: to hash a message with a script in it takes as long as to parse it."""
    return _parser.requests(payload)


class Node(Server):
    """One server with a clock of its own."""

    def __init__(self, network: Network, name: str, ahead: float, pace: float) -> None:
        super().__init__(name)
        self._simulation = network.simulation
        self._pace = pace
        self.ahead = ahead
        """Seconds by which its clock is ahead; set it to make that clock step."""
        self.model = ModelRedis(self.wall_us)
        self.model.publish = self._publish
        self._channels: dict[bytes, dict[Connection, None]] = {}
        self.watchers: list[Callable[[], object]] = []
        """Called when the server has served something and may have written."""

    def wall_us(self) -> float:
        return (WALL_S + self.ahead + self._pace * self._simulation.now) * 1e6

    def slew(self, pace: float) -> None:
        """Run its clock at another pace from now on, without a step."""
        self.ahead += (self._pace - pace) * self._simulation.now
        self._pace = pace

    def receive(self, connection: Connection, payload: bytes) -> None:
        """Serve requests, all at once and in one step."""
        if connection not in self._connections:  # unknown to this process: a reset
            connection.down.send(partial(connection.lost, "reset by the server"))
            return
        model, now_us = self.model, self.wall_us()
        replies: list[Any] = []
        for command in parsed(payload):
            if command[0] == b"SUBSCRIBE":
                replies.append(self._subscribe(connection, command[3][1]))
            else:
                replies.append(model.serve(command, now_us))
        connection.down.carry(replies)
        if model.is_new:
            for watch in self.watchers:
                watch()

    def _subscribe(self, connection: Connection, channel: bytes) -> list[Any]:
        self._channels.setdefault(channel, {})[connection] = None
        return [b"subscribe", channel, 1]

    def _publish(self, channel: bytes, message: bytes | None) -> int:
        listeners = list(self._channels.get(channel, ()))
        for connection in listeners if message is not None else ():
            connection.down.carry([[b"message", channel, message]])
        return len(listeners)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that its client has closed."""
        self._connections.pop(connection, None)
        for listeners in self._channels.values():
            listeners.pop(connection, None)

    def crash(self) -> None:
        """Crash: all connections are lost, and new ones are refused."""
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
