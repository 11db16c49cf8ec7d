"""The server's side of ZooKeeper's client protocol: it parses requests and packs replies."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA = 1, 2, 3, 4, 5
GET_CHILDREN, SYNC, PING, GET_CHILDREN_2, CHECK, MULTI, CREATE_2 = 8, 9, 11, 12, 13, 14, 15
CREATE_CONTAINER, AUTH, CLOSE, ERROR = 19, 100, -11, -1
OPEN_SESSION, DELETE_CONTAINER = -10, 20  # never sent by a client here
WRITES = frozenset({CREATE, DELETE, SET_DATA, MULTI, CREATE_2, CREATE_CONTAINER, CLOSE})
EVENT_XID, PING_XID, AUTH_XID = -1, -2, -4

CONNECTED = 3  # the keeper state in an event

_header = struct.Struct(">iqi")
_stat = struct.Struct(">qqqqiiiqiiq")


class Op(NamedTuple):
    """One operation of a client."""

    kind: int
    path: str = ""
    data: bytes = b""
    flags: int = 0
    version: int = -1
    watches: bool = False
    parts: tuple[Op, ...] = ()
    has_acl: bool = True


class Hello(NamedTuple):
    """The first message of a connection: ZooKeeper's ConnectRequest."""

    zxid: int
    timeout_ms: int
    session: int
    password: bytes


class Reader:
    """Reads the fields of one message in turn."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._at = 0

    def take(self, count: int) -> bytes:
        self._at += count
        return self._frame[self._at - count : self._at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def long_number(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def flag(self) -> bool:
        return self.take(1) != b"\0"

    def buffer(self) -> bytes:
        return self.take(max(0, self.number()))

    def text(self) -> str:
        return self.buffer().decode()

    def hello(self) -> Hello:
        self.number()
        return Hello(self.long_number(), self.number(), self.long_number(), self.buffer())

    def request(self) -> tuple[int, Op]:
        """Read a request: its xid and its operation."""
        return self.number(), self.op(self.number())

    def op(self, kind: int) -> Op:
        if kind in (CREATE, CREATE_2, CREATE_CONTAINER):
            path, data, rights = self.text(), self.buffer(), self.number()
            for _ in range(rights):
                self.number()
                self.text()
                self.text()
            return Op(kind, path, data, self.number(), has_acl=rights > 0)
        if kind in (DELETE, CHECK):
            return Op(kind, self.text(), version=self.number())
        if kind == SET_DATA:
            return Op(kind, self.text(), self.buffer(), version=self.number())
        if kind in (EXISTS, GET_DATA, GET_CHILDREN, GET_CHILDREN_2):
            return Op(kind, self.text(), watches=self.flag())
        if kind == SYNC:
            return Op(kind, self.text())
        if kind == MULTI:
            return Op(kind, parts=tuple(self._parts()))
        return Op(kind)

    def _parts(self) -> Iterator[Op]:
        while True:
            kind, is_end, _ = self.number(), self.flag(), self.number()
            if is_end:
                return
            yield self.op(kind)


def frames(payload: bytes) -> Iterator[bytes]:
    """Split a payload into its frames, without their lengths."""
    at = 0
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


def framed(body: bytes) -> bytes:
    return integer(len(body)) + body


def integer(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def buffer(data: bytes) -> bytes:
    return integer(len(data)) + data


def text(word: str) -> bytes:
    return buffer(word.encode())


def texts(words: Sequence[str]) -> bytes:
    return integer(len(words)) + b"".join(map(text, words))


def stat(*fields: int) -> bytes:
    return _stat.pack(*fields)


def part_header(kind: int, is_end: bool, code: int) -> bytes:
    """Pack the header that precedes each result of a transaction, and follows the last."""
    return integer(kind) + (b"\1" if is_end else b"\0") + integer(code)


def reply(xid: int, zxid: int, code: int, body: bytes = b"") -> bytes:
    return framed(_header.pack(xid, zxid, code) + body)


def event(kind: int, path: str) -> bytes:
    return reply(EVENT_XID, -1, 0, integer(kind) + integer(CONNECTED) + text(path))


def welcome(timeout_ms: int, session: int, password: bytes) -> bytes:
    """Pack the reply to the first message; a timeout of 0 says that the session has expired."""
    head = integer(0) + integer(timeout_ms) + session.to_bytes(8, "big", signed=True)
    return framed(head + buffer(password) + b"\0")
