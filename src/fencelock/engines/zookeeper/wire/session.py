"""A ZooKeeper session as bytes in and bytes out: no sockets, no clocks, no threads.

A session outlives its connections: ``connect`` begins a new connection, ``connection_lost`` ends
it, and its pending requests are lost then. A watcher is called when its node changes or is deleted,
and also when the connection breaks, because no event would come any more: it means "look again",
never more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from . import messages
from .messages import Batch, Request, Watcher

WATCH_XID, PING_XID, AUTH_XID = -1, -2, -4
XIDS = 2**31 - 1
FRAME_MAX = 64 * 2**20  # no reply is so long: a server that sends that is not ZooKeeper
NOT_ZOOKEEPER = "the answer is not ZooKeeper's: is this its client port?"


class SessionExpired(Exception):
    """The server has expired the session; the next connection begins a new one."""


class AuthFailed(Exception):
    """The server has rejected the credentials."""


class ProtocolError(Exception):
    """The received bytes are not ZooKeeper's protocol."""


class Session:
    """A client's session, and the state of its present connection."""

    def __init__(self, timeout_s: float, credentials: Sequence[tuple[str, str]]) -> None:
        self.id = 0
        self.timeout = timeout_s
        """Seconds: the requested session timeout, and once connected the granted one."""
        self.connected = False
        """Whether the server has answered the present connection's first message."""
        self.is_new = True
        """Whether the session began with the present connection."""
        self._wanted_ms = int(timeout_s * 1000)
        self._credentials = credentials
        self._password = bytes(16)
        self._zxid = 0
        self._xid = 0
        self._buffer = bytearray()
        self._pending: deque[tuple[int, Request, Batch, int]] = deque()
        self._watches: dict[str, dict[Watcher, None]] = {}  # called in the order of their watches
        self._following = bytearray()

    def connect(self) -> bytes:
        """Reset the state for a new connection; return its first bytes, with the credentials."""
        self.connected = False
        self.is_new = not self.id
        self._buffer.clear()
        self._following.clear()
        first = messages.connect(self._zxid, self._wanted_ms, self.id, self._password)
        proofs = [messages.authenticate(scheme, word) for scheme, word in self._credentials]
        return _frame(first) + b"".join(_message(AUTH_XID, proof) for proof in proofs)

    def send(self, requests: Sequence[Request], batch: Batch) -> bytes:
        """Queue a batch of requests as pending, and return its bytes to write."""
        parts: list[bytes] = []
        for index, request in enumerate(requests):
            self._xid = self._xid % XIDS + 1
            self._pending.append((self._xid, request, batch, index))
            parts.append(_message(self._xid, request))
        return b"".join(parts)

    def ping(self) -> bytes:
        return _message(PING_XID, messages.PING)

    def receive(self, data: bytes) -> bytes:
        """Read received bytes: pass replies to their batches, events to their watchers.

        Return the bytes of the requests that the watchers sent, to be written at once.
        """
        self._read_frames(data)
        following = bytes(self._following)
        self._following.clear()
        return following

    def _read_frames(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= 4:
            size = int.from_bytes(buffer[:4], "big")
            if size > FRAME_MAX:
                raise ProtocolError(NOT_ZOOKEEPER)
            if len(buffer) < 4 + size:
                return
            frame = bytes(buffer[4 : 4 + size])
            del buffer[: 4 + size]
            if self.connected:
                self._read_frame(frame)
            else:
                self._read_connected(frame)

    def connection_lost(self) -> None:
        """Mark all pending batches as lost, and call all watchers with None."""
        self.connected = False
        pending, self._pending = self._pending, deque()
        watches, self._watches = self._watches, {}
        for _, _, batch, _ in pending:
            batch.lose()
        for watchers in watches.values():
            for watcher in watchers:
                watcher(None)

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """Remove a watcher; the server's own watch stays until its next event."""
        watchers = self._watches.get(path)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watches[path]

    def _read_connected(self, frame: bytes) -> None:
        try:
            timeout_ms, session, password = messages.read_connected(frame)
        except Exception:
            raise ProtocolError(NOT_ZOOKEEPER) from None
        if timeout_ms <= 0:
            self.id, self._password = 0, bytes(16)
            raise SessionExpired
        self.id, self._password, self.timeout = session, password, timeout_ms / 1000
        self.connected = True

    def _read_frame(self, frame: bytes) -> None:
        xid, zxid, code, offset = messages.read_header(frame)
        if xid == WATCH_XID:
            path = messages.read_event(frame, offset)
            for watcher in self._watches.pop(path, ()):
                watcher(self._send_following)
        elif xid == AUTH_XID:
            if code:
                raise AuthFailed
        elif xid != PING_XID:
            self._zxid = max(self._zxid, zxid)
            self._read_reply(xid, code, frame, offset)

    def _send_following(self, requests: Sequence[Request], batch: Batch) -> None:
        self._following += self.send(requests, batch)

    def _read_reply(self, xid: int, code: int, frame: bytes, offset: int) -> None:
        if not self._pending or self._pending[0][0] != xid:
            raise ProtocolError("an answer came out of order")
        _, request, batch, index = self._pending.popleft()
        reply = messages.read_reply(request, code, frame, offset)
        if not isinstance(reply, Exception) and (watch := messages.watcher_of(request)):
            self._watches.setdefault(watch[0], {})[watch[1]] = None
        batch.reply(index, reply)


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _message(xid: int, request: Request) -> bytes:
    head = xid.to_bytes(4, "big", signed=True) + request.type.to_bytes(4, "big", signed=True)
    return _frame(head + request.serialize())
