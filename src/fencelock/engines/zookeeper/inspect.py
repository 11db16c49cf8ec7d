"""Reads locks from outside, and takes them away.

Every look first has its server catch up with the leader. Ages are worked out from wall clocks,
which may differ between machines: they are for people, and nothing is decided by them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...errors import Unavailable
from ...model import Gone, Grant, Holding, State, Waiting
from ...world import World
from . import paths
from .folders import Folders
from .node import Node, read_data
from .wire import Connection, messages
from .wire.messages import Stat

REVOKED_MAX = 100  # the last revocations, so that their node never grows
TRIES = 10
BATCH_MAX = 200


class Contender(NamedTuple):
    """One node of a queue, and what is in it."""

    child: str
    data: bytes
    stat: Stat


class Inspection:
    """What one client can read of all locks."""

    def __init__(self, world: World, connection: Connection, folders: Folders) -> None:
        self._world = world
        self._connection = connection
        self._folders = folders

    async def inspect(self, name: str) -> State:
        contenders = await self._contenders(self._folders.path(name))
        holders = [self._holding(name, contender) for contender in contenders[:1]]
        waiters = [Waiting(self._age(x.stat), self._read(x.data)[1]) for x in contenders[1:]]
        return State(name, tuple(holders), tuple(waiters))

    async def scan(self, prefix: str) -> list[Holding]:
        await self._connection.call(messages.sync(self._folders.root or "/"))
        found: list[Holding] = []
        level = [self._folders.root]
        while level:
            inner: list[str] = []
            for start in range(0, len(level), BATCH_MAX):
                batch = level[start : start + BATCH_MAX]
                wanted = [messages.get_children(path or "/") for path in batch]
                for path, children in zip(batch, await self._connection.call(*wanted), strict=True):
                    if not isinstance(children, Exception):
                        inner += self._folders_in(path, children)
                        found += await self._holder(path, children, prefix)
            level = inner
        return sorted(found, key=lambda holding: holding.name)

    def _folders_in(self, path: str, children: list[str]) -> list[str]:
        ours = (c for c in children if paths.sequence(c) is None and c != paths.REVOKED)
        return [f"{path}/{child}" for child in ours if path or child != paths.SYSTEM]

    async def _holder(self, path: str, children: list[str], prefix: str) -> list[Holding]:
        order = await self._folders.order(path, children)
        if not order or path == self._folders.root:
            return []
        name = self._folders.name(path)
        if not name.startswith(prefix) or self._folders.path(name) != path:
            return []
        (found,) = await self._connection.call(messages.get_data(f"{path}/{order[0]}"))
        if isinstance(found, Exception):  # released at this moment: see who is next
            contenders = await self._contenders(path)
            return [self._holding(name, contenders[0])] if contenders else []
        return [self._holding(name, Contender(order[0], *found))]

    async def revoke(self, name: str, reason: str) -> bool:
        """Delete the holder's node, and in the same transaction write down why."""
        folder = self._folders.path(name)
        for _ in range(TRIES):
            contenders = await self._contenders(folder, 1)
            if not contenders:
                return False
            child = contenders[0].child
            found = await self._reasons()
            if found is None:
                continue
            reasons, version = found
            reasons = dict([*reasons.items(), (_key(child), reason)][-REVOKED_MAX:])
            record = messages.set_data(self._folders.revoked, json.dumps(reasons).encode(), version)
            both = messages.multi([record, messages.delete(f"{folder}/{child}")])
            (reply,) = await self._connection.call(both)
            if not any(isinstance(one, Exception) for one in reply):
                return True
        raise Unavailable(
            f"{name!r} changed hands faster than it could be revoked; nothing is done"
        )

    async def why_gone(self, node: Node) -> Gone:
        """Find out why a node of ours is not there any more."""
        (found,) = await self._connection.call(messages.get_data(self._folders.revoked))
        reasons: Any = {} if isinstance(found, Exception) else json.loads(found[0] or b"{}")
        reason = reasons.get(_key(node.child or ""))
        return Gone("revoked", reason or "its node was deleted from ZooKeeper")

    async def why_not_ours(self, grant: Grant) -> Gone:
        """Find out why this client cannot renew a grant that it has no node for."""
        contenders = await self._contenders(self._folders.path(grant.name))
        if any(contender.stat.czxid == grant.fence for contender in contenders):
            reason = "it lives with the session of another client, which alone can keep it"
            return Gone("session", reason)
        return Gone("expired", "its node is gone from ZooKeeper")

    async def _reasons(self) -> tuple[dict[str, str], int] | None:
        """Read the last revocations and the version of their node; None when it was just made."""
        path = self._folders.revoked
        (found,) = await self._connection.call(messages.get_data(path))
        if isinstance(found, Exception):
            await self._connection.call(messages.create_persistent(path, messages.OPEN))
            return None
        data, stat = found
        return json.loads(data or b"{}"), stat.version

    async def _contenders(self, folder: str, most: int = 10_000) -> list[Contender]:
        """Read the contenders of a folder, in order, with their data."""
        _, children = await self._connection.call(
            messages.sync(folder), messages.get_children(folder)
        )
        if isinstance(children, Exception):
            return []
        order = (await self._folders.order(folder, children))[:most]
        found: list[Contender] = []
        for start in range(0, len(order), BATCH_MAX):
            batch = order[start : start + BATCH_MAX]
            replies = await self._connection.call(
                *[messages.get_data(f"{folder}/{child}") for child in batch]
            )
            found += [
                Contender(child, *reply)
                for child, reply in zip(batch, replies, strict=True)
                if not isinstance(reply, Exception)
            ]
        return found

    def _holding(self, name: str, contender: Contender) -> Holding:
        _, data, stat = contender
        ttl, meta = self._read(data)
        return Holding(name, stat.czxid, ttl, self._age(stat), ttl, meta)

    def _read(self, data: bytes) -> tuple[float, Any]:
        return read_data(data, self._connection.ttl_max)

    def _age(self, stat: Stat) -> float:
        return max(0.0, self._world.wall_us() / 1e6 - stat.ctime_ms / 1e3)


def _key(child: str) -> str:
    """Return what tells one contender from all others, short enough to be kept."""
    return child[-60:]
