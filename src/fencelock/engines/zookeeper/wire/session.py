"""A ZooKeeper session as bytes in and bytes out: no sockets, no clocks, no threads.

A session outlives its connections: ``greet`` begins a new one, ``break_off`` ends it, and what was
under way is lost then. A watch is called when its node changes or goes, and also when the
connection breaks, because nobody would tell us any more: it means "look again", never more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from . import messages
from .messages import Flight, Request, Watcher

WATCH_XID, PING_XID, AUTH_XID = -1, -2, -4
FRAME_MAX = 64 * 2**20  # no answer of ours is so long: whoever sends that is no ZooKeeper
XIDS = 2**31 - 1


class Ended(Exception):
    """The server has forgotten the session; the next greeting asks for a new one."""


class Refused(Exception):
    """The server does not believe who we are."""


class Garbled(Exception):
    """What came is not ZooKeeper's protocol."""


class Session:
    """What a client knows of its session, and the state of the present connection."""

    def __init__(self, wanted_s: float, credentials: Sequence[tuple[str, str]]) -> None:
        self.id = 0
        self.timeout = wanted_s
        """Seconds: what we ask for, and after the welcome what the server grants."""
        self.welcomed = False
        self.fresh = True
        """The session began with the present connection."""
        self._wanted_ms = int(wanted_s * 1000)
        self._credentials = credentials
        self._password = bytes(16)
        self._zxid = 0
        self._xid = 0
        self._buffer = bytearray()
        self._pending: deque[tuple[int, Request, Flight, int]] = deque()
        self._watches: dict[str, set[Watcher]] = {}
        self._next = bytearray()

    def greet(self) -> bytes:
        """Begin a connection: the bytes to send first, credentials included."""
        self.welcomed = False
        self.fresh = not self.id
        self._buffer.clear()
        self._next.clear()
        hello = messages.connect(self._zxid, self._wanted_ms, self.id, self._password)
        proofs = [messages.authenticate(scheme, word) for scheme, word in self._credentials]
        return _framed(hello) + b"".join(_message(AUTH_XID, proof) for proof in proofs)

    def ask(self, wanted: Sequence[Request], flight: Flight) -> bytes:
        """The bytes of some requests, to be sent in one go and answered in order."""
        parts: list[bytes] = []
        for place, request in enumerate(wanted):
            self._xid = self._xid % XIDS + 1
            self._pending.append((self._xid, request, flight, place))
            parts.append(_message(self._xid, request))
        return b"".join(parts)

    def ping(self) -> bytes:
        return _message(PING_XID, messages.PING)

    def receive(self, data: bytes) -> bytes:
        """Take what has come: answers go to their flights, events to their watchers.

        Return the bytes of what these ask next, to be sent at once.
        """
        self._take(data)
        wanted = bytes(self._next)
        self._next.clear()
        return wanted

    def _take(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            size = int.from_bytes(buffer[:4], "big")
            if size > FRAME_MAX:
                raise Garbled("the answer is not ZooKeeper's: is this its client port?")
            if len(buffer) < 4 + size:
                return
            frame = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            if self.welcomed:
                self._read(frame)
            else:
                self._read_welcome(frame)

    def break_off(self) -> None:
        """The connection is over: what was asked is lost, and who watches must look again."""
        self.welcomed = False
        pending, self._pending = self._pending, deque()
        watches, self._watches = self._watches, {}
        for _, _, flight, _ in pending:
            flight.lose()
        for watchers in watches.values():
            for watcher in watchers:
                watcher(None)

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """Call a watcher no more; the server's own note of it is spent with the next event."""
        watchers = self._watches.get(path)
        if watchers is not None:
            watchers.discard(watcher)
            if not watchers:
                del self._watches[path]

    def _read_welcome(self, frame: bytes) -> None:
        try:
            timeout_ms, session, password = messages.read_welcome(frame)
        except Exception:
            raise Garbled("the answer is not ZooKeeper's: is this its client port?") from None
        if timeout_ms <= 0:
            self.id, self._password = 0, bytes(16)
            raise Ended
        self.id, self._password, self.timeout = session, password, timeout_ms / 1000
        self.welcomed = True

    def _read(self, frame: bytes) -> None:
        xid, zxid, code, offset = messages.read_header(frame)
        if xid == WATCH_XID:
            path = messages.read_event(frame, offset)
            for watcher in self._watches.pop(path, ()):
                watcher(self._follow)
        elif xid == AUTH_XID:
            if code:
                raise Refused
        elif xid != PING_XID:
            self._zxid = max(self._zxid, zxid)
            self._answer(xid, code, frame, offset)

    def _follow(self, wanted: Sequence[Request], flight: Flight) -> None:
        self._next += self.ask(wanted, flight)

    def _answer(self, xid: int, code: int, frame: bytes, offset: int) -> None:
        if not self._pending or self._pending[0][0] != xid:
            raise Garbled("an answer came out of order")
        _, request, flight, place = self._pending.popleft()
        answer = messages.read_answer(request, code, frame, offset)
        if not code and (watch := messages.watcher_of(request)):
            self._watches.setdefault(watch[0], set()).add(watch[1])
        flight.answer(place, answer)


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _message(xid: int, request: Request) -> bytes:
    head = xid.to_bytes(4, "big", signed=True) + request.type.to_bytes(4, "big", signed=True)
    return _framed(head + request.serialize())
