"""The floor for etcd: one gRPC transaction that puts a key, and one that deletes it.

Bytes are made once. No fence, no queue, no renewal and no errors handled: what gRPC, the server and
its disk themselves take.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from bench.aio import AioContestant, Pairs
from bench.contestant import Lock, Session
from bench.etcd_server import OnEtcd

TXN = "/etcdserverpb.KV/Txn"
OPTIONS = [("grpc.enable_retries", 0)]


class RawEtcd(OnEtcd):
    """Blocking calls."""

    name = "raw etcd"
    works = frozenset({"pair"})
    yardstick = works
    needs = ("grpc",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)


class _Session(Session):
    def __init__(self, address: str) -> None:
        import grpc

        self._channel = grpc.insecure_channel(address, OPTIONS)

    def lock(self, name: str) -> Lock:
        return _Lock(self._channel.unary_unary(TXN), name)

    def close(self) -> None:
        self._channel.close()


class _Lock(Lock):
    def __init__(self, call: object, name: str) -> None:
        assert callable(call)
        self._call = call
        self._take, self._leave = requests(name)

    def acquire(self) -> int:
        self._call(self._take, timeout=10)
        return 0

    def release(self) -> None:
        self._call(self._leave, timeout=10)


class RawEtcdAio(OnEtcd, AioContestant):
    """gRPC's own asyncio calls."""

    name = "raw etcd asyncio"
    works = frozenset({"pair"})
    needs = ("grpc",)

    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        return _opened(self.place)


@asynccontextmanager
async def _opened(address: str) -> AsyncIterator[Pairs]:
    import grpc.aio

    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:
        call: Any = channel.unary_unary(TXN)

        async def pairs(name: str, count: int) -> None:
            take, leave = requests(name)
            for _ in range(count):
                await call(take, timeout=10)
                await call(leave, timeout=10)

        yield pairs


def requests(name: str) -> tuple[bytes, bytes]:
    """A transaction that puts a key if it is not there, and one that deletes it if it is."""
    key = _field(1, name.encode() + b"/0123456789abcdef0123456789abcdef")
    compared = _field(3, key[2:])
    absent = b"\x10\x01" + compared + b"\x28\x00"  # create revision equals 0
    there = b"\x08\x01\x10\x01" + compared + b"\x28\x00"  # create revision is greater than 0
    put, delete = _field(2, key + _field(2, b"x" * 100)), _field(3, key)
    return _field(1, absent) + _field(2, put), _field(1, there) + _field(2, delete)


def _field(number: int, value: bytes) -> bytes:
    size = len(value)
    length = bytes((size,)) if size < 128 else bytes((size & 127 | 128, size >> 7))
    return bytes((number << 3 | 2,)) + length + value
