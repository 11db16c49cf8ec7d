"""The protocol of MySQL after a connection is made, without touching a socket.

A question is one packet with SQL text; the answer is one reply for each of its statements. Drivers
do the same, at several times the cost: they build cursors and converters that nobody here needs.
They stay in charge of connecting, TLS and authentication.
"""

from __future__ import annotations

from typing import NamedTuple

QUIT = b"\x01\x00\x00\x00\x01"
PACKET_MAX = 0xFFFFFF
IN_TRANSACTION, MORE_RESULTS = 0x0001, 0x0008

Row = tuple[bytes | None, ...]


class Reply(NamedTuple):
    """What became of one statement."""

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


class Garbled(Exception):
    """What came is not an answer to what was asked."""


def question(sql: str) -> bytes:
    """The packet that asks for some statements."""
    body = sql.encode()
    if len(body) >= PACKET_MAX - 1:
        raise Garbled(f"a statement of {len(body)} bytes is too long for one packet")
    return (len(body) + 1).to_bytes(4, "little") + b"\x03" + body


def short(data: bytes) -> list[Reply] | None:
    """The replies if this is all of an answer without rows to one statement, as most are."""
    if data[3:5] != b"\x01\x00" or int.from_bytes(data[:3], "little") != len(data) - 4:
        return None
    affected, place = _number(data, 5)
    insert_id, place = _number(data, place)
    if data[place] & MORE_RESULTS:
        return None
    return [Reply([], affected, insert_id)]


class Answer:
    """The answer to one question, read as it comes in."""

    def __init__(self) -> None:
        self._bytes = b""
        self._rows: list[Row] | None = None
        self._columns = 0
        self._skip = 0
        self.replies: list[Reply] = []
        self.error: ServerError | None = None
        self.status = 0
        self.first = True

    def feed(self, data: bytes) -> bool:
        """Take in some bytes; True when the answer is complete."""
        data = self._bytes + data if self._bytes else data
        place, end = 0, len(data)
        while end - place >= 4:
            size = int.from_bytes(data[place : place + 3], "little")
            if end - place - 4 < size:
                break
            if size == PACKET_MAX:
                raise Garbled("a packet of 16 MiB")
            self._unasked(data[place + 3])
            place += 4 + size
            if self._take(data[place - size : place]):
                if place != end:
                    raise Garbled("more than was asked for")
                return True
        self._bytes = data[place:]
        return False

    def _unasked(self, sequence: int) -> None:
        """A packet numbered 0 was sent before our question: the server says good-bye."""
        if self.first and sequence == 0:
            raise Garbled("the server has ended the session")
        self.first = False

    def _take(self, packet: bytes) -> bool:
        kind = packet[0] if packet else 0
        if kind == 0xFF:
            self.error = _error(packet, self.replies)
            return True
        if self._skip:  # the columns' names and types, and the mark behind them
            self._skip -= 1
            return False
        if self._rows is not None:
            if kind != 0xFE or len(packet) > 8:
                self._rows.append(_row(packet, self._columns))
                return False
            self.replies.append(Reply(self._rows))
            self._rows = None
            self.status = int.from_bytes(packet[3:5], "little")
            return not self.status & MORE_RESULTS
        if kind == 0x00:
            affected, place = _number(packet, 1)
            insert_id, place = _number(packet, place)
            self.status = int.from_bytes(packet[place : place + 2], "little")
            self.replies.append(Reply([], affected, insert_id))
            return not self.status & MORE_RESULTS
        if kind == 0xFB:  # LOAD DATA LOCAL: a server must not read files of ours
            raise Garbled("the server asks for a file")
        self._columns, _ = _number(packet, 0)
        self._skip, self._rows = self._columns + 1, []
        return False


def _error(packet: bytes, replies: list[Reply]) -> ServerError:
    code = int.from_bytes(packet[1:3], "little")
    text = packet[9:] if packet[3:4] == b"#" else packet[3:]
    return ServerError(code, text.decode(errors="replace"), replies)


def _number(packet: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place behind it."""
    first = packet[place]
    if first < 0xFB:
        return first, place + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(packet[place + 1 : place + 1 + size], "little"), place + 1 + size


def _row(packet: bytes, columns: int) -> Row:
    place = 0
    values: list[bytes | None] = []
    for _ in range(columns):
        if packet[place] == 0xFB:
            values.append(None)
            place += 1
            continue
        size, place = _number(packet, place)
        values.append(packet[place : place + size])
        place += size
    return tuple(values)
