"""Fan out in a blocking program: write to all sockets, then wait for whichever answers first.

All threads share the connections, whose sockets never block: any thread may send while another
waits. A thread that waits and finds none reading reads for all; when its own broadcast is settled
it passes the turn on. So no thread of our own is needed, but for making connections.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Container, Sequence
from math import ceil
from typing import Any

from ...errors import EngineError, Unavailable
from ...wires.poll import READ, WRITE, new_poll
from ...wires.thread_flag import ThreadFlag
from ...wires.wakeup_pipe import WakeupPipe
from ...world import World
from ..redis.scripts import Script
from ..redis.settings import Node, Settings
from ..redis.wire.connection import CLOSED, cannot_connect
from ..redis.wire.connection_threads import ThreadsStream
from .fanout import Broadcast, Fanout, NodeConnection

READ_MAX = 65536
IDLE_S = 1.0  # after so long without a call, first read what has come meanwhile
STALLED_S = 0.05  # after which the reader may have been interrupted before it woke the next one
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Poll:
    """Replaces epoll where there is none. It needs no descriptor of its own."""

    def __init__(self) -> None:
        poll = new_poll()
        self.register, self.unregister, self.modify = poll.register, poll.unregister, poll.modify
        self._poll = poll.poll

    def poll(self, seconds: float) -> list[tuple[int, int]]:
        return self._poll(ceil(seconds * 1000))

    def close(self) -> None:
        """Do nothing: there is no descriptor to close."""


def poller() -> Any:
    """Make a poll object for the sockets of all nodes: epoll where it exists."""
    return select.epoll() if hasattr(select, "epoll") else _Poll()


class ThreadsNode(NodeConnection):
    """The connection to one node, by a socket that never blocks."""

    def __init__(self, index: int, address: Node) -> None:
        super().__init__(index, address)
        self.stream: ThreadsStream | None = None
        self.number = -1
        self.out = b""
        """Bytes that the socket did not accept yet."""

    def attach(self, stream: ThreadsStream) -> None:
        self.stream = stream
        stream.socket.setblocking(False)
        self.number = stream.socket.fileno()
        self.send, self.receive = stream.socket.send, stream.receive
        self.secure = type(stream.socket) is not socket.socket
        self.gets, self.feed = stream.gets, stream.feed
        self.out = b""


class ThreadsFanout(Fanout[ThreadsNode]):
    """The connections of one client to all nodes, for one purpose.

    An exception of a signal handler can come with any call, several in a row, also during clean-up.
    State that must be right afterwards is set by plain assignments, before anything is called.
    """

    def __init__(self, world: World, settings: Settings, scripts: Sequence[Script]) -> None:
        nodes = [ThreadsNode(index, address) for index, address in enumerate(settings.nodes)]
        super().__init__(settings, scripts, nodes, world.now)
        self._limit, self._spawn = world.limit, world.spawn
        self._mutex = threading.RLock()
        """For all state; the collector may close us while it is held."""
        self._changing = False
        """Whether what was sent and what is awaited may not agree: a thread changes them, or was
        interrupted while it did. A thread that finds that, with the mutex, cuts all connections."""
        self._reader: object = None
        """The broadcast of the thread that reads."""
        self._followers: list[Broadcast] = []
        """The broadcasts of the threads that wait for that one."""
        self._poll = poller()
        self._by_number: dict[int, ThreadsNode] = {}
        self._wakeup = WakeupPipe()
        self._poll.register(self._wakeup.open(), READ)
        self._idle = min(IDLE_S, settings.request_timeout / 2)
        self._used_at = 0.0
        self._closed = self._all_cut = False

    async def _send(self, broadcast: Broadcast, until: float, only: Container[int] | None) -> None:
        try:
            with self._mutex:
                if self._closed:
                    raise Unavailable(CLOSED)
                self._begin_change()
                if self._now() - self._used_at > self._idle and self._reader is None:
                    self._take(self._poll.poll(0.0))  # we have the mutex: no thread begins to read
                self._begin(broadcast, only)
                self._changing = False
            self._wait(broadcast, min(until, self._limit()))
        finally:
            broadcast.open = False
            if self._reader is broadcast:
                self._reader = None
            self._leave(broadcast)

    def _begin_change(self) -> None:
        if self._changing:
            for node in self._nodes:
                self._cut(node, "interrupted")
        self._changing = True

    def _wait(self, broadcast: Broadcast, until: float) -> None:
        """Read for all, or wait for the thread that does, until it is settled or at ``until``."""
        flag: ThreadFlag | None = None
        while not broadcast.settled and (left := until - self._now()) > 0:
            if self._takes_turn(broadcast):
                self._lead(broadcast, until)
            elif flag is None:  # then try once more: the last reader may not have seen us
                flag = ThreadFlag()
                broadcast.wake = flag.set
                with self._mutex:
                    self._followers.append(broadcast)
            else:
                flag.wait(min(left, STALLED_S))
                flag.clear()

    def _takes_turn(self, token: object) -> bool:
        with self._mutex:
            self._reader = self._reader or token
        return self._reader is token

    def _lead(self, broadcast: Broadcast, until: float) -> None:
        """Read for all until our own broadcast is settled."""
        while not broadcast.settled and (left := until - self._now()) > 0:
            ready = self._poll.poll(left)
            with self._mutex:
                self._begin_change()
                self._take(ready)
                self._changing = False

    def _leave(self, broadcast: Broadcast) -> None:
        """Wait no more; wake one waiting thread, so that it reads for the others."""
        if self._waiting or self._followers:
            with self._mutex:
                self._end(broadcast)
                self._followers = [one for one in self._followers if one.open]
                for one in self._followers[:1]:
                    one.wake()
        self._used_at = self._now()
        if self._closed:
            self._dispose()

    def _take(self, ready: list[tuple[int, int]]) -> None:
        for number, event in ready:
            node = self._by_number.get(number)
            if node is None:
                if number == self._wakeup.descriptor:
                    self._wakeup.drain()
                continue
            try:
                if event & WRITE:
                    self._flush(node)
                if event & ~WRITE:
                    self._receive(node)
            except OSError as error:
                self._cut(node, error)

    def _receive(self, node: ThreadsNode) -> None:
        while True:
            try:
                data = node.receive(READ_MAX)
            except _LATER:
                return
            if not data:
                raise ConnectionResetError("the server closed it")
            node.feed(data)
            self._replied(node, node.gets)
            if len(data) < READ_MAX and not node.secure:  # TLS may have more than the kernel shows
                return

    def _write(self, node: ThreadsNode, payload: bytes) -> None:
        if node.out:
            node.out += payload
            return
        try:
            sent = node.send(payload)
        except _LATER:
            sent = 0
        except OSError as error:
            self._cut(node, error)
            return
        if sent < len(payload):
            node.out = payload[sent:]
            self._poll.modify(node.number, READ | WRITE)

    def _flush(self, node: ThreadsNode) -> None:
        out, node.out = node.out, b""
        self._write(node, out)
        if not node.out and node.up:
            self._poll.modify(node.number, READ)

    def _cut(self, node: ThreadsNode, why: object) -> None:
        """Close a connection; may be repeated when it was interrupted."""
        node.up = False
        if node.number in self._by_number:
            try:
                self._poll.unregister(node.number)
            except (OSError, KeyError):
                pass  # a call that was interrupted had got so far
            self._by_number.pop(node.number, None)
        if node.stream is not None:
            node.stream.close()
            node.stream = None
        self._broken(node, why)

    # Connections are made by threads of their own, so that no call waits for a dead node.

    def _start_connecting(self, node: ThreadsNode) -> None:
        try:
            self._spawn(self._connect(node), "fencelock-connect")
        except RuntimeError as error:  # no thread can be started
            self._unreachable(node, cannot_connect(node.address, error))

    async def _connect(self, node: ThreadsNode) -> None:
        with self._mutex:
            if node.connecting or node.up or self._closed:
                return
            node.connecting = True
        stream: ThreadsStream | None = None
        failure: Exception | None = None
        try:
            stream = ThreadsStream(self._settings, node.address)
        except EngineError as error:
            failure = error
        except Exception as error:  # whatever it is, the node cannot be reached
            failure = cannot_connect(node.address, error)
        with self._mutex:
            if self._closed and stream is not None:
                stream.close()
            self._begin_change()
            if failure is not None:
                self._unreachable(node, failure)
            elif stream is not None and not self._closed:
                node.attach(stream)
                self._by_number[node.number] = node
                self._poll.register(node.number, READ)
                self._connected(node)
            self._changing = False
            if not self._closed:
                self._wakeup.wake()  # the reader polls again, with the new state

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        if self._all_cut:  # seen without the mutex: when the interpreter ends, a thread that has
            return  # it is stopped for ever, and the last to let go of us would wait for it
        with self._mutex:
            self._closed = True
            for node in self._nodes:
                self._cut(node, "closed")
            self._give_up()
            self._wakeup.wake()
            self._all_cut = True
        self._dispose()

    def _dispose(self) -> None:
        """Close the pipe, unless a thread still reads: then that one does it when it leaves."""
        if self._takes_turn(object()):  # and never given back
            self._poll.close()
            self._wakeup.close()
