"""Rounds for blocking programs: write to all sockets, then wait for whichever answers first.

The connections are shared by all threads. Whoever waits and finds nobody reading reads for all;
when its own round is settled it passes that on. So no thread of our own is needed, but for making
connections.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Container, Sequence
from typing import Any

from ...errors import Unavailable
from ...wires.socket_timeout import READ, WRITE
from ...world import World
from .line_threads import Alarm, ThreadsLine, poller
from .link_threads import unconnected
from .round import Ask, Round
from .rounds import Rounds
from .scripts import Script
from .settings import Settings
from .wire import CLOSED, cannot_connect

READ_MAX = 65536
IDLE_S = 1.0  # after so long without a call, see first what has come meanwhile
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ThreadsRounds(Rounds[ThreadsLine]):
    """The connections of one client to all nodes, for one lane."""

    def __init__(self, settings: Settings, scripts: Sequence[Script], world: World) -> None:
        lines = [ThreadsLine(place, node) for place, node in enumerate(settings.nodes)]
        super().__init__(settings, scripts, lines, world.now)
        self._limit = world.limit
        self._mutex = threading.RLock()
        """For all state; the collector may close us while it is held."""
        self._reader: object = None
        """The token of whoever reads."""
        self._poll = poller()
        self._by_number: dict[int, ThreadsLine] = {}
        self._followers: list[Alarm] = []
        self._ear, self._mouth = os.pipe()
        self._poll.register(self._ear, READ)
        self._idle = min(IDLE_S, settings.request_timeout / 2)
        self._used_at = 0.0
        self._closed = False

    async def ask(
        self,
        ask: Ask | bytes,
        cast: Callable[[Any], bool],
        until: float,
        kept_until: float = 0.0,
        places: Container[int] | None = None,
    ) -> Round:
        round = Round(len(self._lines), ask, cast, kept_until)
        try:
            with self._mutex:
                if self._closed:
                    raise Unavailable(CLOSED)
                self._begin_safely(round, places)
            self._wait(round, min(until, self._limit()))
        finally:
            with self._mutex:
                self._end(round)
                self._used_at = self._now()
        return round

    def _begin_safely(self, round: Round, places: Container[int] | None) -> None:
        try:
            if self._now() - self._used_at > self._idle and self._reader is None:
                self._take(self._poll.poll(0.0))  # the mutex is ours: nobody begins to read
            self._begin(round, places)
        except BaseException:  # interrupted: what was sent and what is awaited may not agree
            for line in self._lines:
                self._cut(line, "interrupted")
            raise

    def _wait(self, round: Round, until: float) -> None:
        alarm: Alarm | None = None
        token = object()
        try:
            while not round.settled and (left := until - self._now()) > 0:
                if self._takes_turn(token):
                    try:
                        self._lead(round, until)
                    finally:
                        self._leave(token)
                elif alarm is None:  # and then try once more: the one before may not have seen us
                    alarm = Alarm()
                    round.wake = alarm.set
                    with self._mutex:
                        self._followers.append(alarm)
                else:
                    alarm.wait(left)

        finally:
            self._leave(token)  # also when interrupted before anything could be noted
            if alarm is not None:
                with self._mutex:
                    if alarm in self._followers:
                        self._followers.remove(alarm)
            self._appoint()

    def _takes_turn(self, token: object) -> bool:
        with self._mutex:
            self._reader = self._reader or token
        return self._reader is token

    def _leave(self, token: object) -> None:
        """Read no more; somebody else does."""
        if self._reader is token:
            self._reader = None
            self._appoint()
            if self._closed:
                self._dispose()

    def _lead(self, round: Round, until: float) -> None:
        """Read for all until our own round is settled."""
        while not round.settled and (left := until - self._now()) > 0:
            ready = self._poll.poll(left)
            with self._mutex:
                self._take(ready)

    def _appoint(self) -> None:
        """Wake one that waits, so that it reads for the others."""
        if self._followers:
            with self._mutex:
                for alarm in self._followers[:1]:
                    alarm.set()

    def _take(self, ready: list[tuple[int, int]]) -> None:
        for number, event in ready:
            line = self._by_number.get(number)
            if line is None:
                if number == self._ear:
                    os.read(self._ear, 512)
                continue
            try:
                if event & WRITE:
                    self._flush(line)
                if event & ~WRITE:
                    self._receive(line)
            except OSError as error:
                self._cut(line, error)
            except BaseException:  # interrupted: nobody knows what was read
                self._cut(line, "interrupted")
                raise

    def _receive(self, line: ThreadsLine) -> None:
        while True:
            try:
                data = line.receive(READ_MAX)
            except _LATER:
                return
            if not data:
                raise ConnectionResetError("the server closed it")
            line.feed(data)
            self._heard(line, line.gets)
            if len(data) < READ_MAX and not line.secure:  # TLS may have more than the kernel shows
                return

    def _write(self, line: ThreadsLine, payload: bytes) -> None:
        if line.out:
            line.out += payload
            return
        try:
            sent = line.send(payload)
        except _LATER:
            sent = 0
        except OSError as error:
            self._cut(line, error)
            return
        except BaseException:
            self._cut(line, "interrupted")
            raise
        if sent < len(payload):
            line.out = payload[sent:]
            self._poll.modify(line.number, READ | WRITE)

    def _flush(self, line: ThreadsLine) -> None:
        out, line.out = line.out, b""
        self._write(line, out)
        if not line.out and line.up:
            self._poll.modify(line.number, READ)

    def _cut(self, line: ThreadsLine, why: object) -> None:
        if line.connection is None:
            return
        self._poll.unregister(line.number)
        del self._by_number[line.number]
        connection, line.connection = line.connection, None
        connection.disconnect()
        self._broken(line, why)

    # Connections are made by threads of their own, so that no call waits for a dead node.

    def _dial(self, line: ThreadsLine) -> None:
        thread = threading.Thread(
            target=self._connect, args=(line,), name="fencelock-connect", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # no thread to be had
            self._unreachable(line, cannot_connect(line.node, error))

    def _connect(self, line: ThreadsLine) -> None:
        connection = unconnected(self._settings, line.node)
        failure: Exception | None = None
        try:
            connection.connect()
        except Exception as error:  # whatever it is, the node is not there
            failure = cannot_connect(line.node, error)
        with self._mutex:
            if self._closed or failure is not None:
                connection.disconnect()
            if failure is not None:
                self._unreachable(line, failure)
            elif not self._closed:
                line.attach(connection)
                self._by_number[line.number] = line
                self._poll.register(line.number, READ)
                self._connected(line)
            if not self._closed:
                os.write(self._mouth, b"!")  # whoever reads sees the new state of things

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        if self._closed:  # seen without the mutex: when the interpreter ends, a thread that has it
            return  # is stopped for ever, and the last to let go of us would wait for it
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            for line in self._lines:
                self._cut(line, "closed")
            self._give_up()
            os.write(self._mouth, b"!")
        self._dispose()

    def _dispose(self) -> None:
        """Close the pipe, unless somebody reads still: then that one does it on leaving."""
        if self._takes_turn(object()):  # and never given back
            self._poll.close()
            os.close(self._ear)
            os.close(self._mouth)
