"""A key of etcd behind the guard, from threads and from asyncio."""

from __future__ import annotations

import asyncio
from typing import Self

from fencelock.guards.etcd import AsyncEtcdGuard, EtcdGuard
from fencelock.guards.fence import Fenced
from tests.guards.contract import NAME


class EtcdDesk:
    def __init__(self, address: str, prefix: str, epoch: int = 0) -> None:
        self._address, self._prefix = address, prefix
        self.key = f"{prefix}value"
        self.guard = EtcdGuard(address, prefix=f"{prefix}marks/", epoch=epoch)

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        return _text(self.guard.enter(lease, self.key, name=name, reading=reading)[self.key])

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self.guard.put(self.key, value, lease, name=name)

    def read(self) -> str | None:
        reader = EtcdGuard(self._address, prefix=f"{self._prefix}readers/")
        return _text(reader.enter(1, self.key, name="reader")[self.key])

    def mark(self, reading: bool = False) -> int:
        return self.guard.mark(NAME, reading=reading)

    def reset(self, to: int = 0) -> None:
        self.guard.reset(NAME, to)

    def at(self, epoch: int) -> Self:
        return type(self)(self._address, self._prefix, epoch)


class AsyncEtcdDesk(EtcdDesk):
    def __init__(self, address: str, prefix: str, epoch: int = 0) -> None:
        super().__init__(address, prefix, epoch)
        self.aio = AsyncEtcdGuard(address, prefix=f"{prefix}marks/", epoch=epoch)

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        return _text(
            asyncio.run(self.aio.enter(lease, self.key, name=name, reading=reading))[self.key]
        )

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        asyncio.run(self.aio.put(self.key, value, lease, name=name))

    def mark(self, reading: bool = False) -> int:
        return asyncio.run(self.aio.mark(NAME, reading=reading))

    def reset(self, to: int = 0) -> None:
        asyncio.run(self.aio.reset(NAME, to))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
