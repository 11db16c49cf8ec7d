"""An object behind the guard, from threads and from asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self

from fencelock.guards.fence import Fenced
from fencelock.guards.s3 import AsyncS3Guard, S3Guard
from tests.guards.bridge import Bridge
from tests.servers import seaweed

_bridges: dict[str, Bridge] = {}


def close_bridges() -> None:
    while _bridges:
        _bridges.popitem()[1].close()


class S3Desk:
    def __init__(self, url: str, prefix: str, epoch: int = 0) -> None:
        self._url, self._prefix = url, prefix
        self.key = f"{prefix}value ä.txt"
        self.client = seaweed.client(url)
        self.guard = S3Guard(self.client, seaweed.BUCKET, epoch=epoch)

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        return _text(self.guard.enter(self.key, lease, name=name, reading=reading))

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self.guard.put(self.key, value.encode(), lease, name=name)

    def read(self) -> str | None:
        return _text(self.guard.read(self.key))

    def mark(self, reading: bool = False) -> int:
        return self.guard.mark(self.key, reading=reading)

    def reset(self, to: int = 0) -> None:
        self.guard.reset(self.key, to)

    def at(self, epoch: int) -> Self:
        return type(self)(self._url, self._prefix, epoch)


class AsyncS3Desk(S3Desk):
    def __init__(self, url: str, prefix: str, epoch: int = 0) -> None:
        super().__init__(url, prefix)
        self._epoch = epoch

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        return _text(
            self._run(lambda guard: guard.enter(self.key, lease, name=name, reading=reading))
        )

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self._run(lambda guard: guard.put(self.key, value.encode(), lease, name=name))

    def read(self) -> str | None:
        return _text(self._run(lambda guard: guard.read(self.key)))

    def mark(self, reading: bool = False) -> int:
        mark: int = self._run(lambda guard: guard.mark(self.key, reading=reading))
        return mark

    def reset(self, to: int = 0) -> None:
        self._run(lambda guard: guard.reset(self.key, to))

    def _run(self, use: Callable[[AsyncS3Guard], Awaitable[Any]]) -> Any:
        if self._url not in _bridges:
            _bridges[self._url] = Bridge(lambda: seaweed.aio_client(self._url))
        return _bridges[self._url].run(
            lambda client: use(AsyncS3Guard(client, seaweed.BUCKET, epoch=self._epoch))
        )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
