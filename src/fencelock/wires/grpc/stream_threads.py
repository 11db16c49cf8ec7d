"""A stream for threads: a connection of its own, and a thread that reads it.

The thread connects, too: Ctrl-C strikes the main thread only, and so never between the parts of
that. A server that says nothing is asked for a sign of life now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .call import Call, Refused
from .channel_threads import Channel
from .frames import DEATH_S, SILENCE_S
from .hpack import Malformed
from .server import Server

CONNECT_S = 3.0


class _Flow(Call):
    """A call whose messages are kept until the connection's mutex is free."""

    __slots__ = ("news",)

    def __init__(self, head: bytes) -> None:
        super().__init__(head, None, goes_on=True)
        self.news: list[bytes] = []

    def heard(self, message: bytes) -> None:
        self.news.append(message)


class Stream:
    """Messages both ways, until either side ends it."""

    def __init__(
        self, server: Server, head: bytes, hear: Callable[[bytes], None], end: Callable[[], None]
    ) -> None:
        self._server = server
        self._call = _Flow(head)
        self._hear = hear
        self._end = end
        self._mutex = threading.Lock()
        self._channel: Channel | None = None
        self._early: list[bytes] = []
        """What is to be said once there is a connection."""
        self._closed = False
        try:
            threading.Thread(target=self._run, name="fencelock-watch", daemon=True).start()
        except BaseException:  # of a signal handler: nobody knows this stream
            self._closed = True
            raise

    def send(self, message: bytes) -> None:
        with self._mutex:
            if self._channel is None:
                self._early.append(message)
            else:
                self._channel.send(self._call, message)

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            if self._channel is not None:
                self._channel.close()

    def _run(self) -> None:
        try:
            channel = self._begin()
            try:
                self._listen(channel)
            finally:
                channel.close()
                channel.let_go()
        except (OSError, Malformed, Refused):
            pass  # however it ended: who listened looks for itself
        finally:
            self._end()

    def _begin(self) -> Channel:
        channel = Channel(self._server, CONNECT_S)
        with self._mutex:
            self._channel = channel
            if self._closed:
                channel.close()
            channel.begin(self._call)
            for message in self._early:
                channel.send(self._call, message)
        return channel

    def _listen(self, channel: Channel) -> None:
        asked = False
        while not self._call.done:
            try:
                channel.read(DEATH_S if asked else SILENCE_S)
                channel.pong()
                asked = False
            except (BlockingIOError, TimeoutError):
                if asked:
                    return  # no sign of life
                channel.ping()
                asked = True
            news, self._call.news = self._call.news, []
            for message in news:
                self._hear(message)
