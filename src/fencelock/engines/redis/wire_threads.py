"""The wire of blocking programs: one connection per node and lane, used by the calling threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import OutcomeUnknown, Unavailable
from ...wires.socket_timeout import READ, poller
from ...world import World
from .link_threads import ENDED, Link, Stale
from .settings import Node, Settings
from .wire import CLOSED, Lane, packed, time_up

STALE_MAX = 10
ONE = b":1\r\n"  # what most releases are answered
READ_FEW = 256  # bytes for one short reply: more room takes longer to be had


class ThreadsLine:
    """The quick way to one node."""

    def __init__(self, wire: ThreadsWire, node: Node) -> None:
        self._wire = wire
        self._left = wire.left
        self._node = node
        self._link: Link | None = None

    def direct(self, payload: bytes, request_timeout: float) -> Any:
        """What ``Link.ask`` does, for one reply, in the fewest steps: all locking goes this way."""
        link = self._link
        if link is None or not link.usable:
            return self._ask(payload, request_timeout)
        if (left := self._left()) < request_timeout:
            if left <= 0:
                raise time_up(self._node)
            request_timeout = left
        if not link.turn.acquire(False):
            try:
                return link.queue_up(payload, 1, request_timeout)[0]
            except Stale:
                return self._ask(payload, request_timeout)
        try:
            if link.owes:  # whoever had the turn was interrupted, and its reply is still to come
                link.close()
            if link.usable:
                if not link.times_itself and request_timeout != link.request_timeout:
                    link.set_timeout(request_timeout)
                link.owes = True
                link.send(payload)
                while link.comes(request_timeout):
                    data = link.receive(READ_FEW)
                    if data == ONE:
                        link.owes = False
                        return 1
                    if not data:
                        raise ConnectionResetError(ENDED)
                    link.feed(data)
                    if (reply := link.gets()) is not False:
                        link.owes = False
                        return reply
                raise TimeoutError
        except BaseException as error:  # also when interrupted: a late reply meets nobody
            link.close()
            if isinstance(error, OSError):
                raise link.unanswered(request_timeout, error) from error
            raise
        finally:
            if link.queue:
                link.leave()
            else:
                link.turn.release()
                if link.queue:
                    link.step_in()
        return self._ask(payload, request_timeout)

    def _ask(self, payload: bytes, request_timeout: float) -> Any:
        (reply,) = self._wire.ask(self._node, payload, 1, request_timeout, "main")
        self._link = self._wire.known(self._node, "main")
        return reply

    async def ask(self, payload: bytes, request_timeout: float) -> Any:
        return self.direct(payload, request_timeout)


class ThreadsWire:
    """All connections of one client."""

    def __init__(self, settings: Settings, world: World) -> None:
        self._settings = settings
        self._now, self._limit = world.now, world.limit
        self._links: dict[tuple[Node, Lane], Link] = {}
        self._connecting: dict[tuple[Node, Lane], object] = {}
        self._sentinels = settings.nodes if settings.topology == "sentinel" else ()
        self._closed = False

    async def call(
        self, node: Node, payload: bytes, count: int, request_timeout: float, lane: Lane
    ) -> Sequence[Any]:
        return self.ask(node, payload, count, request_timeout, lane)

    def ask(
        self, node: Node, payload: bytes, count: int, request_timeout: float, lane: Lane
    ) -> Sequence[Any]:
        """What ``call`` does, for those that need not await it."""
        for _ in range(STALE_MAX):
            link = self._links.get((node, lane))
            if link is None or not link.usable:
                link = self._connect(node, lane)
            try:
                replies: list[Any] = link.ask(payload, count, request_timeout)
                return replies
            except Stale:
                pass  # it broke before we were heard
        raise Unavailable(f"{node[0]}:{node[1]} closes every connection; nothing happened")

    def left(self) -> float:
        """Seconds until the running call has to end."""
        return self._limit() - self._now()

    def line(self, node: Node) -> ThreadsLine:
        return ThreadsLine(self, node)

    def known(self, node: Node, lane: Lane) -> Link | None:
        """The connection to a node, if there is one."""
        return self._links.get((node, lane))

    def _connect(self, node: Node, lane: Lane) -> Link:
        """Whoever comes first connects, the others wait for that."""
        mutex: Any = self._connecting.setdefault((node, lane), threading.RLock())
        try:
            if not mutex.acquire(timeout=min(max(0.0, self.left()), threading.TIMEOUT_MAX)):
                raise time_up(node)
            link = self._links.get((node, lane))
            if link is not None and link.usable:
                return link
            if self._closed:
                raise Unavailable(CLOSED)
            link = Link(self._settings, node, node in self._sentinels, self.left)
            self._links[node, lane] = link
            return link
        finally:
            if mutex._is_owned():  # a signal may have come before anybody could note that it is
                mutex.release()

    async def subscribe(self, node: Node, channel: str) -> ThreadsInbox:
        link = Link(self._settings, node, left=self.left)
        try:
            link.ask(packed("SUBSCRIBE", channel), 1, self._settings.request_timeout)
            return ThreadsInbox(link)
        except BaseException as error:
            link.close()
            if isinstance(error, OutcomeUnknown):
                raise Unavailable(str(error)) from error
            raise

    def drop(self, node: Node) -> None:
        for key in [key for key in list(self._links) if key[0] == node]:
            link = self._links.pop(key, None)
            if link is not None:
                link.close()

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closed = True
        for node, _ in list(self._links):
            self.drop(node)


class ThreadsInbox:
    """Heard by one thread; any other may nudge it."""

    def __init__(self, link: Link) -> None:
        self.broken = ""
        self._link = link
        link.set_timeout(1.0)
        self._ear, self._mouth = os.pipe()
        self._mutex = threading.Lock()
        self._closed = False
        self._poll = poller()
        self._poll.register(link.socket.fileno(), READ)
        self._poll.register(self._ear, READ)

    async def receive(self, seconds: float) -> list[bytes]:
        ready = self._poll.poll(seconds * 1000 + 1 if seconds > 0 else 1)
        if self._closed or not ready:
            return []
        if len(ready) > 1 or ready[0][0] == self._ear:
            os.read(self._ear, 512)
            if len(ready) == 1:
                return []
        try:
            replies = self._link.take()
        except BaseException as error:  # also when interrupted: it may have been amid a message
            self.broken = str(error) or "interrupted"
            if isinstance(error, OSError):
                raise Unavailable(f"the inbox was cut off ({error})") from error
            raise
        return [said[2] for said in replies if type(said) is list and said[0] == b"message"]

    def prompt(self, hear: Callable[[bytes], None]) -> None:
        """Nobody is there to say it unless somebody receives."""

    def nudge(self) -> None:
        with self._mutex:  # not while it is being closed: the descriptor may be another's by then
            if not self._closed:
                os.write(self._mouth, b"!")

    def __del__(self) -> None:
        if hasattr(self, "_closed"):
            self.close()  # nobody may have got it: whoever made it was interrupted

    def close(self) -> None:
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            os.close(self._ear)
            os.close(self._mouth)
        self._link.close()
