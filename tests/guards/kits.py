"""The guards of this folder behind one face, so that one contract can be held against all.

A kit guards as many names as a test likes, in a store of its own. Those of asyncio are driven by a
loop of their own, so that the contract is written once.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import redis
import redis.asyncio

from fencelock.guards.fence import Fenced, name_of
from fencelock.guards.files import FileGuard, forget, sidecar
from fencelock.guards.http import MemoryMarks, SqlMarks
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from tests.servers.redis import Redis
from tests.servers.shared import shared

T = TypeVar("T")


class Kit:
    """One kind of guard. ``guard`` has the verbs of most of them."""

    guard: Any
    writes = True

    def __init__(self, folder: Path) -> None:
        raise NotImplementedError

    def at(self, epoch: int) -> Kit:
        """The same store, for a program that lives in another epoch."""
        raise NotImplementedError

    def enter(self, lease: Fenced | int, name: str | None = None, reading: bool = False) -> None:
        self.guard.enter(lease, name=name, reading=reading)

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        """Write the one value that is guarded by the name."""
        raise NotImplementedError

    def read(self, name: str) -> str:
        """The value, past the guard."""
        raise NotImplementedError

    def mark(self, name: str, reading: bool = False) -> int:
        return int(self.guard.mark(name, reading=reading))

    def reset(self, name: str, to: int = 0) -> None:
        self.guard.reset(name, to)

    def forget(self, seconds: float) -> int:
        return int(self.guard.forget(seconds))

    def age(self, name: str) -> None:
        """Make the mark of a name as old as can be."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class RedisKit(Kit):
    def __init__(self, folder: Path, url: str = "", epoch: int = 0) -> None:
        self.url = url or shared(Redis).fresh_url()
        self.client = redis.Redis.from_url(self.url, decode_responses=True)
        self.guard = RedisGuard(self.client, epoch=epoch)
        self.folder = folder

    def at(self, epoch: int) -> Kit:
        return RedisKit(self.folder, self.url, epoch)

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        theirs = name if isinstance(lease, int) else lease.name
        self.guard.set(f"value of {theirs}", value, lease, name=name)

    def read(self, name: str) -> str:
        return str(self.client.get(f"value of {name}") or "")

    def age(self, name: str) -> None:
        key = self.guard._key(name)
        self.client.set(key, f"{str(self.client.get(key))[:19]} 0")

    def close(self) -> None:
        self.client.close()


class AsyncRedisKit(RedisKit):
    """The same over asyncio; it looks at the values over the blocking client."""

    def __init__(self, folder: Path, url: str = "", epoch: int = 0) -> None:
        super().__init__(folder, url, epoch)
        self.runner = asyncio.Runner()
        self.aio = redis.asyncio.Redis.from_url(self.url)
        self.guard = _Driven(AsyncRedisGuard(self.aio, epoch=epoch), self.runner)

    def at(self, epoch: int) -> Kit:
        return AsyncRedisKit(self.folder, self.url, epoch)

    def close(self) -> None:
        self.runner.run(self.aio.aclose())
        self.runner.close()
        super().close()


class _Driven:
    """A guard of asyncio, driven."""

    def __init__(self, guard: Any, runner: asyncio.Runner) -> None:
        self._guard = guard
        self._runner = runner

    def __getattr__(self, verb: str) -> Any:
        found: Callable[..., Coroutine[Any, Any, Any]] = getattr(self._guard, verb)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *args, **options: self._runner.run(found(*args, **options))


def _named(lease: Any, name: str | None) -> str:
    return name or (name_of(lease) if hasattr(lease, "name") else "nobody")


class FilesKit(Kit):
    """A file for each name."""

    def __init__(self, folder: Path, epoch: int = 0) -> None:
        self.folder = folder
        self.epoch = epoch

    def at(self, epoch: int) -> Kit:
        return FilesKit(self.folder, epoch)

    def of(self, name: str) -> FileGuard:
        return FileGuard(self.folder / name, epoch=self.epoch)

    def enter(self, lease: Fenced | int, name: str | None = None, reading: bool = False) -> None:
        self.of(_named(lease, name)).enter(lease, name=name, reading=reading)

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        self.of(_named(lease, name)).replace(value, lease, name=name)

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def mark(self, name: str, reading: bool = False) -> int:
        return self.of(name).mark(reading=reading)

    def reset(self, name: str, to: int = 0) -> None:
        self.of(name).reset(to)

    def forget(self, seconds: float) -> int:
        return forget(self.folder, seconds)

    def age(self, name: str) -> None:
        path = sidecar.sidecar_of(str(self.folder / name))
        with sidecar.locked(path, 10) as descriptor:
            assert descriptor is not None
            seen = sidecar.read(descriptor)
            sidecar.write(descriptor, seen._replace(raised=0.0, turn=seen.turn + 1), False)


class MemoryKit(Kit):
    writes = False

    def __init__(self, folder: Path) -> None:
        self.guard = MemoryMarks()

    def at(self, epoch: int) -> Kit:
        other = MemoryKit(Path())
        other.guard = MemoryMarks(epoch=epoch)
        other.guard._marks = self.guard._marks
        return other

    def age(self, name: str) -> None:
        self.guard._marks[name] = (self.guard._marks[name][0], float("-inf"))


class SqlKit(Kit):
    writes = False

    def __init__(self, folder: Path, epoch: int = 0) -> None:
        self.path = folder / "marks.db"
        self.guard = SqlMarks(self._connect, epoch=epoch)
        self.guard.create()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=10, check_same_thread=False)

    def at(self, epoch: int) -> Kit:
        return SqlKit(self.path.parent, epoch)

    def age(self, name: str) -> None:
        db = self._connect()
        db.execute("UPDATE fencelock_marks SET seen_at = 0 WHERE name = ?", (name,))
        db.commit()
        db.close()

    def close(self) -> None:
        self.guard.close()


KITS: dict[str, type[Kit]] = {
    "redis": RedisKit,
    "redis asyncio": AsyncRedisKit,
    "files": FilesKit,
    "memory marks": MemoryKit,
    "sql marks": SqlKit,
}
