"""One thread that waits for the results of many sessions, each of which may take for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psycopg

from ....errors import FencelockError
from ....wires.daemon_thread import start_daemon
from ....wires.disconnect_monitor import Hangups
from ....wires.wakeup_pipe import WakeupPipe
from ..errors import Refused, lost, refusal
from ..rows import Rows
from .connection_threads import ThreadConnection
from .poll import READABLE, new_poll


class Poller:
    """Waits for the answers of many sessions at once, in one thread, while there are any."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._sent: dict[int, tuple[ThreadConnection, Callable[[Rows | Exception], None]]] = {}
        self._poll = new_poll()
        self._wakeup = WakeupPipe()
        self._runs = False
        self._closed = False
        self.hangups = Hangups()

    def add(self, connection: ThreadConnection, done: Callable[[Rows | Exception], None]) -> None:
        """Call ``done`` when the statement that was sent is answered."""
        with self._mutex:
            socket = connection.pgconn.socket
            self._sent[socket] = (connection, done)
            self._poll.register(socket, READABLE)
            if not self._runs:  # the thread notes it, which no exception can interrupt
                start_daemon(self._run, "fencelock-poller")
        self._wakeup.wake()

    def forget(self, connection: ThreadConnection) -> None:
        """The connection is about to be closed."""
        with self._mutex:
            for socket, (other, _) in list(self._sent.items()):
                if other is connection:
                    del self._sent[socket]
                    self._poll.unregister(socket)

    def close(self) -> None:
        self._closed = True
        self.hangups.close()
        self._wakeup.wake()

    def _run(self) -> None:
        with self._mutex:
            if self._runs:  # it was started once more before it had begun
                return
            self._poll.register(self._wakeup.open(), READABLE)
            self._runs = True
        while not self._closed:
            for socket, _ in self._poll.poll():
                if socket == self._wakeup.descriptor:
                    self._wakeup.drain()
                else:
                    self._finish(socket)
        self._wakeup.close()

    def _finish(self, socket: int) -> None:
        with self._mutex:
            if socket not in self._sent:
                return
            connection, done = self._sent[socket]
            answer = received(connection)
            if answer is None:
                return
            del self._sent[socket]
            self._poll.unregister(socket)
        done(answer)


def received(connection: ThreadConnection) -> Rows | FencelockError | None:
    """What has come for a statement that was sent, if all of it has."""
    try:
        connection.pgconn.consume_input()
        rows = connection.take()
        connection.busy = rows is None
        return rows
    except Refused as error:
        connection.busy = False
        return refusal(error)
    except (psycopg.Error, OSError) as error:
        return lost(error)


def waited(connection: ThreadConnection, seconds: float) -> Rows | FencelockError | None:
    """The same, after waiting for it."""
    give_up = time.monotonic() + seconds
    while (left := give_up - time.monotonic()) > 0:
        if connection.readable(left) and (answer := received(connection)) is not None:
            return answer
    return None
