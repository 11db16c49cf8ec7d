"""The wire of blocking programs: each call is made in its own thread, on a connection of its own.

Connections that are not in use wait in a stack per node, so that a program with one thread has one.
A socket that times out in the kernel needs one system call where Python's own timeouts need two.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from typing import Any

import hiredis
import redis.connection
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from ...errors import OutcomeUnknown, Unavailable
from ...worlds import clock
from .settings import Node, Settings
from .wire import CLOSED, Lane, arguments, cannot_connect, connection_class, packed

READ_MAX = 65536
IDLE_MAX = 64  # connections kept for a node


class Link:
    """One connection."""

    def __init__(self, settings: Settings, node: Node, sentinel: bool = False) -> None:
        kind = connection_class(redis.connection, settings)
        self._connection = kind(
            **arguments(settings, node, sentinel), retry=Retry(NoBackoff(), 0), retry_on_error=[]
        )
        try:
            self._connection.connect()
        except (RedisError, OSError) as error:
            self._connection.disconnect()
            raise cannot_connect(node, error) from error
        self.socket: socket.socket = self._connection._sock
        self._in_kernel = sys.platform != "win32" and type(self.socket) is socket.socket
        self._patience = -1.0
        self._reader = hiredis.Reader()
        self._gets, self._feed = self._reader.gets, self._reader.feed
        self._send, self._receive = self.socket.sendall, self.socket.recv

    def set_patience(self, seconds: float) -> None:
        """How long to wait for the server to take or give anything."""
        if not self._in_kernel:
            self.socket.settimeout(seconds)
        else:
            self.socket.setblocking(True)
            limit = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._patience = seconds

    def exchange(self, payload: bytes, count: int, patience: float) -> list[Any]:
        """Send, and wait for the replies."""
        if patience != self._patience:
            self.set_patience(patience)
        self._send(payload)
        replies: list[Any] = []
        while True:
            reply = self._gets()
            if reply is not False:
                replies.append(reply)
                if len(replies) == count:
                    return replies
                continue
            data = self._receive(READ_MAX)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._feed(data)

    def take(self) -> list[Any]:
        """The replies that have come, after one read that does not wait."""
        data = self._receive(READ_MAX)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._feed(data)
        replies: list[Any] = []
        while (reply := self._gets()) is not False:
            replies.append(reply)
        return replies

    def close(self) -> None:
        self._connection.disconnect()


class ThreadsWire:
    """All connections of one client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: dict[Node, list[Link]] = {}
        self._sentinels = settings.nodes if settings.topology == "sentinel" else ()
        self._closed = False

    async def call(
        self, node: Node, payload: bytes, count: int, patience: float, lane: Lane
    ) -> Sequence[Any]:
        try:
            link = self._idle[node].pop()
        except (KeyError, IndexError):
            if self._closed:
                raise Unavailable(CLOSED) from None
            link = Link(self._settings, node, node in self._sentinels)
        try:
            replies = link.exchange(payload, count, patience)
        except OSError as error:
            link.close()
            self.drop(node)
            raise OutcomeUnknown(_no_answer(node, patience, error)) from error
        except BaseException:  # interrupted: a late reply must not meet the next request
            link.close()
            raise
        self._keep(node, link)
        return replies

    def _keep(self, node: Node, link: Link) -> None:
        idle = self._idle.get(node)
        if idle is None:
            idle = self._idle.setdefault(node, [])
        if self._closed or len(idle) >= IDLE_MAX:
            link.close()
        else:
            idle.append(link)

    async def subscribe(self, node: Node, channel: str) -> ThreadsInbox:
        link = Link(self._settings, node)
        try:
            payload = packed("SUBSCRIBE", channel)
            link.exchange(payload, 1, self._settings.patience)
        except OSError as error:
            link.close()
            raise Unavailable(_no_answer(node, self._settings.patience, error)) from error
        return ThreadsInbox(link)

    def drop(self, node: Node) -> None:
        for link in self._idle.pop(node, []):
            link.close()

    async def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        self._closed = True
        for node in list(self._idle):
            self.drop(node)


class ThreadsInbox:
    """Heard by one thread; any other may nudge it."""

    def __init__(self, link: Link) -> None:
        self.broken = ""
        self._link = link
        link.set_patience(1.0)
        self._ear, self._mouth = os.pipe()
        self._mutex = threading.Lock()
        self._closed = False
        self._poll = select.poll()
        self._poll.register(link.socket, select.POLLIN)
        self._poll.register(self._ear, select.POLLIN)

    async def receive(self, until: float) -> list[bytes]:
        wait_s = max(0.0, until - clock.now())
        ready = {number for number, _ in self._poll.poll(min(wait_s * 1000 + 1, 2**31 - 1))}
        if self._ear in ready:
            os.read(self._ear, 512)
        if self._link.socket.fileno() not in ready or self._closed:
            return []
        try:
            return messages(self._link.take())
        except OSError as error:
            self.broken = str(error)
            raise Unavailable(f"the inbox was cut off ({error})") from error

    def nudge(self) -> None:
        with self._mutex:  # not while it is being closed: the descriptor may be another's by then
            if not self._closed:
                os.write(self._mouth, b"!")

    def close(self) -> None:
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            os.close(self._ear)
            os.close(self._mouth)
        self._link.close()


def messages(replies: Sequence[Any]) -> list[bytes]:
    """What was published, among all that a subscription is told."""
    return [reply[2] for reply in replies if isinstance(reply, list) and reply[0] == b"message"]


def _no_answer(node: Node, patience: float, error: OSError) -> str:
    if isinstance(error, (BlockingIOError, TimeoutError)):
        return f"{node[0]}:{node[1]} did not answer within {patience:g} s"
    return f"the connection to {node[0]}:{node[1]} broke ({error})"
