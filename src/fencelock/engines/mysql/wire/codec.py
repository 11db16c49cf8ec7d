"""Encode queries and decode responses of the MySQL protocol (COM_QUERY), without a socket.

A query is one packet with SQL text; the response has one reply for each of its statements. Drivers
do the same, at several times the cost: they build cursors and converters that are not needed here.
They still do the connecting, TLS and authentication.
"""

from __future__ import annotations

from typing import NamedTuple

QUIT = b"\x01\x00\x00\x00\x01"
PACKET_MAX = 0xFFFFFF
MORE_RESULTS = 0x0008

Row = tuple[bytes | None, ...]


class Reply(NamedTuple):
    """The result of one statement."""

    rows: list[Row]
    affected: int = 0
    insert_id: int = 0


class ServerError(Exception):
    """The server refused a statement; those before it, as in ``replies``, have been run."""

    def __init__(self, code: int, message: str, replies: list[Reply] | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.replies = replies or []


class ProtocolError(Exception):
    """The data received is not a response to the query."""


def query_packet(sql: str) -> bytes:
    """Encode statements as one COM_QUERY packet."""
    body = sql.encode()
    if len(body) >= PACKET_MAX - 1:
        raise ProtocolError(f"a statement of {len(body)} bytes is too long for one packet")
    return (len(body) + 1).to_bytes(4, "little") + b"\x03" + body


def read_ok(data: bytes) -> list[Reply] | None:
    """Decode a whole response that is one OK packet, as most are; None for any other."""
    if data[3:5] != b"\x01\x00" or int.from_bytes(data[:3], "little") != len(data) - 4:
        return None
    affected, at = _number(data, 5)
    insert_id, at = _number(data, at)
    if data[at] & MORE_RESULTS:
        return None
    return [Reply([], affected, insert_id)]


class Response:
    """The response to one query, decoded as it comes in."""

    def __init__(self) -> None:
        self._bytes = b""
        self._rows: list[Row] | None = None
        self._columns = 0
        self._skip = 0
        self._refusal = b""
        self.replies: list[Reply] = []
        self.first = True

    @property
    def is_refused(self) -> bool:
        """Whether the server refused a statement; then it ran none of those behind it."""
        return bool(self._refusal)

    def result(self) -> list[Reply]:
        """Return the replies of a complete response; raise ServerError if one was refused.

        The error is made here and not kept: the frames of its traceback refer to this object, and
        such a cycle would keep their connection alive, and its slot in a pool taken.
        """
        if self._refusal:
            raise _error(self._refusal, self.replies)
        return self.replies

    def feed(self, data: bytes) -> bool:
        """Decode some bytes; return True when the response is complete."""
        data = self._bytes + data if self._bytes else data
        at, end = 0, len(data)
        while end - at >= 4:
            size = int.from_bytes(data[at : at + 3], "little")
            if end - at - 4 < size:
                break
            if size == PACKET_MAX:
                raise ProtocolError("a packet of 16 MiB")
            self._check_first(data[at + 3])
            at += 4 + size
            if self._take(data[at - size : at]):
                if at != end:
                    raise ProtocolError("more than the response to the query")
                return True
        self._bytes = data[at:]
        return False

    def _check_first(self, sequence: int) -> None:
        """Refuse a packet numbered 0: a server that disconnects has sent it before our query."""
        if self.first and sequence == 0:
            raise ProtocolError("the server has ended the session")
        self.first = False

    def _take(self, packet: bytes) -> bool:
        kind = packet[0] if packet else 0
        if kind == 0xFF:
            self._refusal = packet
            return True
        if self._skip:  # column definitions, and the EOF packet behind them
            self._skip -= 1
            return False
        if self._rows is not None:
            if kind != 0xFE or len(packet) > 8:
                self._rows.append(_row(packet, self._columns))
                return False
            self.replies.append(Reply(self._rows))
            self._rows = None
            status = int.from_bytes(packet[3:5], "little")
            return not status & MORE_RESULTS
        if kind == 0x00:
            affected, at = _number(packet, 1)
            insert_id, at = _number(packet, at)
            status = int.from_bytes(packet[at : at + 2], "little")
            self.replies.append(Reply([], affected, insert_id))
            return not status & MORE_RESULTS
        if kind == 0xFB:  # LOAD DATA LOCAL: a server must not read files of ours
            raise ProtocolError("the server asks for a file")
        self._columns, _ = _number(packet, 0)
        self._skip, self._rows = self._columns + 1, []
        return False


def _error(packet: bytes, replies: list[Reply]) -> ServerError:
    code = int.from_bytes(packet[1:3], "little")
    text = packet[9:] if packet[3:4] == b"#" else packet[3:]
    return ServerError(code, text.decode(errors="replace"), replies)


def _number(packet: bytes, at: int) -> tuple[int, int]:
    """Decode a length-encoded integer; return it and the offset behind it."""
    first = packet[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(packet[at + 1 : at + 1 + size], "little"), at + 1 + size


def _row(packet: bytes, columns: int) -> Row:
    at = 0
    values: list[bytes | None] = []
    for _ in range(columns):
        if packet[at] == 0xFB:
            values.append(None)
            at += 1
            continue
        size, at = _number(packet, at)
        values.append(packet[at : at + size])
        at += size
    return tuple(values)
