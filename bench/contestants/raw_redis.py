"""The floor for Redis: a bare socket, and bytes that are made once.

The lock is the textbook's: `SET NX PX`, and a script that deletes the key only if it is ours. No
fence, no queue, no renewal, no errors handled: what the server and the network themselves take.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha1
from typing import Any

from bench.aio import AioContestant, Pairs
from bench.contestant import Lock, Session
from bench.redis_server import OnRedis

SCRIPT = b"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"
DIGEST = sha1(SCRIPT, usedforsecurity=False).hexdigest().encode()
OWNER = b"0123456789abcdef0123456789abcdef"  # as long as one that is drawn
TTL_MS = b"30000"
TAKEN, LEFT = b"+OK\r\n", b":1\r\n"


class RawRedis(OnRedis):
    """A connection for each lock; blocking."""

    name = "raw redis"
    works = frozenset({"pair", "threads"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.port)


class _Session(Session):
    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []

    def lock(self, name: str) -> Lock:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=10)
        self._sockets.append(made)
        made.settimeout(None)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(packed(b"SCRIPT", b"LOAD", SCRIPT))
        made.recv(4096)
        return _Lock(made, name.encode())

    def close(self) -> None:
        for made in self._sockets:
            made.close()


class _Lock(Lock):
    def __init__(self, made: socket.socket, name: bytes) -> None:
        self._send, self._receive = made.sendall, made.recv
        self._take, self._leave = take(name), leave(name)

    def acquire(self) -> int:
        self._send(self._take)
        _expect(self._receive(64), TAKEN)
        return 0

    def release(self) -> None:
        self._send(self._leave)
        _expect(self._receive(64), LEFT)


class RawRedisAio(OnRedis, AioContestant):
    """One connection for all tasks; what is asked in one turn of the loop goes out in one write."""

    name = "raw redis asyncio"
    works = frozenset({"pair", "tasks"})
    yardstick = frozenset({"tasks"})
    needs = ("hiredis",)

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self.port)


@asynccontextmanager
async def _opened(port: int) -> AsyncIterator[Pairs]:
    transport, line = await asyncio.get_running_loop().create_connection(_Line, "127.0.0.1", port)
    await line.ask(packed(b"SCRIPT", b"LOAD", SCRIPT))

    async def pairs(name: str, count: int) -> None:
        taking, leaving = take(name.encode()), leave(name.encode())
        for _ in range(count):
            _expect(await line.ask(taking), b"OK")
            _expect(await line.ask(leaving), 1)

    yield pairs
    transport.close()


class _Line(asyncio.Protocol):
    def __init__(self) -> None:
        import hiredis

        self._reader = hiredis.Reader()
        self._loop = asyncio.get_running_loop()
        self._asked: deque[asyncio.Future[Any]] = deque()
        self._out: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write

    def ask(self, payload: bytes) -> asyncio.Future[Any]:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(payload)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked.append(answer)
        return answer

    def _flush(self) -> None:
        self._write(b"".join(self._out))
        self._out.clear()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._asked.popleft().set_result(reply)


def take(name: bytes) -> bytes:
    return packed(b"SET", name, OWNER, b"NX", b"PX", TTL_MS)


def leave(name: bytes) -> bytes:
    return packed(b"EVALSHA", DIGEST, b"1", name, OWNER)


def packed(*words: bytes) -> bytes:
    """A request as it goes over the wire."""
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n" % len(words) + b"".join(parts)


def _expect(reply: object, wanted: object) -> None:
    if reply != wanted:
        raise RuntimeError(f"the server answered {reply!r}, not {wanted!r}")
