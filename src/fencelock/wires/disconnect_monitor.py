"""Notice at once that the server has closed a connection, while no request is under way on it.

The kernel knows when the other side has closed a connection, or no longer answers its keepalive
probes. One thread of a client waits for that event on all its connections (``EPOLLRDHUP``); data
that arrives does not wake it. Where the system has no ``epoll``, the next renewal finds out.

It watches duplicates of the sockets: the user of a connection may see its end first and close it,
and then there would be no event. So a connection that is closed must be forgotten here, or the
other side would not see that it was closed.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable

from .daemon_thread import start_daemon

_HANGUP = getattr(select, "EPOLLRDHUP", 0) | getattr(select, "EPOLLONESHOT", 0)


def _call(ended: Callable[[], None]) -> None:
    ended()


class Hangups:
    """Waits until the other side closes any of many connections.

    ``deliver`` takes a callback to where it must run, such as an event loop; without ``deliver`` it
    runs in the thread that waits.
    """

    def __init__(self, deliver: Callable[[Callable[[], None]], object] = _call) -> None:
        self._deliver = deliver
        self._mutex = threading.RLock()  # a client may be collected, and close this, at any moment
        self._watched: dict[int, Callable[[], None]] = {}
        self._duplicates: dict[Callable[[], None], int] = {}
        self._epoll: select.epoll | None = None
        self._stop = -1
        self._runs = False
        self._closed = False

    def watch(self, socket: int, ended: Callable[[], None]) -> None:
        """Have ``ended`` called, once, when the other side is gone."""
        if not hasattr(select, "epoll"):
            return
        with self._mutex:
            if self._closed:
                return
            if self._epoll is None:
                epoll, stop = select.epoll(), os.eventfd(0)
                epoll.register(stop, select.EPOLLIN)
                self._epoll, self._stop = epoll, stop
            if not self._runs:  # the thread notes it, which no exception can interrupt
                start_daemon(self._run, "fencelock-hangups")
            duplicate = os.dup(socket)
            self._watched[duplicate], self._duplicates[ended] = ended, duplicate
            self._epoll.register(duplicate, _HANGUP)

    def forget(self, ended: Callable[[], None]) -> None:
        """Stop watching a connection that is about to be closed, or has been."""
        if self._is_over():
            return
        with self._mutex:
            self._drop(ended)

    def _drop(self, ended: Callable[[], None]) -> None:
        duplicate = self._duplicates.pop(ended, None)
        if duplicate is not None:
            del self._watched[duplicate]
            if self._epoll is not None:
                self._epoll.unregister(duplicate)
            os.close(duplicate)

    def close(self) -> None:
        """End the thread, and forget all connections."""
        if self._is_over():
            return
        with self._mutex:
            self._closed = True
            for ended in list(self._duplicates):
                self._drop(ended)
            if self._stop >= 0:
                os.eventfd_write(self._stop, 1)

    def _is_over(self) -> bool:
        """Return whether there is nothing left to do: it was closed, or the interpreter ends.

        In the latter case our thread is frozen wherever it is, and may have the mutex.
        """
        return self._closed or sys.is_finalizing()

    def _run(self) -> None:
        with self._mutex:
            if self._runs:  # a second thread was started before the first had begun
                return
            self._runs = True
        assert self._epoll is not None
        while True:
            for socket, _ in self._epoll.poll():
                if socket == self._stop:
                    with self._mutex:  # nothing is registered after this: it was closed
                        epoll, stop, self._epoll, self._stop = self._epoll, self._stop, None, -1
                    epoll.close()
                    os.close(stop)
                    return
                if (ended := self._ended(socket)) is not None:
                    try:
                        self._deliver(ended)
                    except RuntimeError:
                        pass  # the event loop is closed, and nobody holds anything any more

    def _ended(self, socket: int) -> Callable[[], None] | None:
        """Return the callback of a socket; None if the event was of an earlier socket."""
        with self._mutex:
            ended = self._watched.get(socket)
            if ended is None:
                return None
            look = select.poll()
            look.register(socket, select.POLLRDHUP)
            if not look.poll(0):
                assert self._epoll is not None
                self._epoll.modify(socket, _HANGUP)
                return None
            self._drop(ended)
            return ended
