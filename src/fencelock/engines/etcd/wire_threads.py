"""The wire for threads: one connection for each member and lane, used by the threads that ask."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic, sleep

from ...wires.grpc.call import Metadata, Refused, cannot_connect
from ...wires.grpc.line_threads import Line
from ...wires.grpc.server import Server
from ...wires.grpc.stream_threads import Stream
from ...wires.grpc.tls import Tls, context_of

LOOK_S = 0.005


class ThreadsWire:
    """Connections to the members of a cluster, each made when it is first needed."""

    def __init__(
        self, members: Sequence[str], tls: Tls | None, left: Callable[[], float] = lambda: inf
    ) -> None:
        """``left`` says how many seconds the call may still last that this thread is in."""
        context = None if tls is None else context_of(tls)
        self._servers = [Server.at(member, context) for member in members]
        self._left = left
        self._lines: dict[tuple[int, int], Line] = {}
        self._doors: dict[tuple[int, int], threading.Lock] = {}
        """Only one thread connects at a time to one place."""
        self._closed = False

    async def call(
        self, member: int, lane: int, method: str, request: bytes, within: float, about: Metadata
    ) -> bytes:
        line = self._lines.get((member, lane))
        head = self._servers[member].heads.of(method, within, about)
        left = self._left()
        if left < within:
            within = left
            if within <= 0:
                raise cannot_connect(TimeoutError())
        if line is None or not line.is_alive():
            due = monotonic() + within
            line = self._connect((member, lane), due)
            within = max(due - monotonic(), 0.01)
        return line.call(head, request, within)

    def _connect(self, place: tuple[int, int], due: float) -> Line:
        """A connection, which those who come meanwhile share.

        They look now and then whether it is there: a signal handler that raises could leave a lock
        locked that is taken within a time limit, but not one of a ``with``.
        """
        door = self._doors.setdefault(place, threading.Lock())
        while door.locked():
            if monotonic() >= due:
                raise cannot_connect(TimeoutError())
            sleep(LOOK_S)
        with door:
            return self._connected(place, due)

    def _connected(self, place: tuple[int, int], due: float) -> Line:
        if self._closed:
            raise Refused("UNAVAILABLE", "the client is closed", unsent=True)
        line = self._lines.get(place)
        if line is None or not line.is_alive():
            if line is not None:
                line.retire()
            left = max(due - monotonic(), 0.01)
            line = self._lines[place] = Line(self._servers[place[0]], left)
        if self._closed:  # meanwhile
            line.close()
        return line

    def stream(
        self,
        member: int,
        method: str,
        about: Metadata,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> Stream:
        server = self._servers[member]
        return Stream(server, server.heads.of(method, None, about), hear, end)

    def leave(self, member: int, lane: int) -> None:
        line = self._lines.pop((member, lane), None)
        if line is not None:
            line.retire()

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        """Close all connections; calls that are under way end at once."""
        self._closed = True
        while self._lines:
            _, line = self._lines.popitem()
            line.close()
