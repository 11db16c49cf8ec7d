"""Remembers numbers for names, whether held or not: one persistent node for each name.

* A node has all items of its name, and is written only if its version is the one that was read. A
  node that was deleted and created again restarts its versions at 0, so every deletion also
  increments the version of the folder, and a write requires that this has not changed either.
* ZooKeeper has no expiry that every server version supports. A node is expired when the time in its
  data (``keep_ms``) has passed since its mtime, by the clock of the leader, which sets the time of
  every change. A client's own clock only decides when to make the write that reads the leader's
  time.
* An expired node is deleted by the next client that recalls it, and the creation of a node checks a
  few others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import Unavailable, UsageError
from ...world import World, sleep
from . import paths
from .folders import Folders
from .wire import Connection, messages
from .wire.connection import failure_of
from .wire.messages import Stat

TRIES = 100  # each that fails means that another writer was faster
RETRY_S = 0.02
BYTES_MAX = 900_000  # a server accepts requests of up to a megabyte
SWEPT = 8  # other nodes that the creation of one checks


class Memo(NamedTuple):
    """The data and versions of one name's node, as read."""

    items: dict[str, int]
    keep_ms: int
    version: int
    folder_version: int


class Memos:
    """Reads and writes the remembered numbers, for one client."""

    def __init__(self, world: World, connection: Connection, folders: Folders) -> None:
        self._world = world
        self._connection = connection
        self._folders = folders
        self._folder = f"{folders.root}/{paths.MEMORY}"

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        path, keep_ms = self._folders.shared_path(paths.MEMORY, name), math.ceil(keep * 1000)
        for attempt in range(TRIES):
            memo = await self._read(path)
            items = {} if memo is None else memo.items
            items[item] = max(number, items.get(item, number))
            if memo is None:
                done = await self._create(path, _written(name, items, keep_ms))
            else:
                data = _written(name, items, max(keep_ms, memo.keep_ms))
                change = messages.set_data(path, data, memo.version)
                done = await self._change(change, memo.folder_version)
            if done:
                return
            await sleep(self._world, RETRY_S * self._world.random() * min(attempt, 10))
        raise Unavailable(f"what is remembered for {name!r} changed faster than it could be read")

    async def recall(self, name: str) -> Mapping[str, int]:
        path = self._folders.shared_path(paths.MEMORY, name)
        memo = await self._read(path)
        if memo is None:
            return {}
        if not memo.items:
            await self._delete(path, memo.version)
        return memo.items

    async def forget(self, name: str) -> None:
        await self._delete(self._folders.shared_path(paths.MEMORY, name))

    async def _read(self, path: str) -> Memo | None:
        """Read a node, without its items if it is expired; None if there is no node."""
        _, folder, found = await self._connection.call(
            messages.sync(path), messages.exists(self._folder), messages.get_data(path)
        )
        if folder is None or isinstance(found, Exception):
            return None
        data, stat = found
        items, keep_ms = _read_data(data)
        if self._world.wall_us() / 1000 > stat.mtime_ms + keep_ms:
            (folder,) = await self._connection.call(messages.set_data(self._folder, b""))
            if isinstance(folder, Exception):
                return None
            if folder.mtime_ms > stat.mtime_ms + keep_ms:
                items, keep_ms = {}, 0
        return Memo(items, keep_ms, stat.version, folder.version)

    async def _create(self, path: str, data: bytes) -> bool:
        """Create the node of a name; return False if the caller must retry."""
        creation = messages.create_persistent(path, self._folders.acl, data)
        (created,) = await self._connection.call(creation)
        if isinstance(created, messages.NoNode):
            await self._folders.make(self._folders.root)
            folder = messages.create_persistent(self._folder, self._folders.acl)
            await self._connection.call(folder)
        if isinstance(created, Exception):
            return False
        await self._sweep(created[1].mtime_ms)
        return True

    async def _change(self, change: messages.Request, folder_version: int) -> bool:
        """Write a node, unless it has changed, or any node was deleted, since it was read."""
        guard = messages.check(self._folder, folder_version)
        (reply,) = await self._connection.call(messages.multi([guard, change]))
        return failure_of(reply) is None

    async def _delete(self, path: str, version: int = -1) -> None:
        """Delete a node, unless it has been written since that version."""
        count_up = messages.set_data(self._folder, b"")
        both = messages.multi([count_up, messages.delete(path, version)])
        (reply,) = await self._connection.call(both)
        failure_of(reply)

    async def _sweep(self, now_ms: int) -> None:
        """Delete the expired among a few other nodes, by the server's time."""
        (names,) = await self._connection.call(messages.get_children(self._folder))
        if isinstance(names, Exception):
            return
        start = int(self._world.random() * len(names))
        chosen = [f"{self._folder}/{name}" for name in (names[start:] + names[:start])[:SWEPT]]
        for path, found in zip(
            chosen, await self._connection.call(*map(messages.get_data, chosen)), strict=True
        ):
            if not isinstance(found, Exception) and _is_over(found[0], found[1], now_ms):
                await self._delete(path, found[1].version)


def _is_over(data: bytes | None, stat: Stat, now_ms: int) -> bool:
    return now_ms > stat.mtime_ms + _read_data(data)[1]


def _written(name: str, items: dict[str, int], keep_ms: int) -> bytes:
    data = json.dumps({"keep_ms": keep_ms, "items": items}).encode()
    if len(data) > BYTES_MAX:
        raise UsageError(f"too much is remembered for {name!r}: ZooKeeper takes a megabyte a node")
    return data


def _read_data(data: bytes | None) -> tuple[dict[str, int], int]:
    found: Any = json.loads(data or b"{}")
    return dict(found.get("items", {})), int(found.get("keep_ms", 0))
