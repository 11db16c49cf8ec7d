"""Reads and revokes the locks of all clients.

Every read is preceded by a sync of the server with its leader. Ages are computed from wall clocks,
which may differ between machines: they are for display, and nothing is decided by them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...errors import Unavailable
from ...model import Gone, Grant, Holding, Role, State, Waiting
from ...world import World
from . import paths
from .folders import Folders
from .node import read_data, read_fence, read_since
from .wire import Connection, messages
from .wire.messages import Stat

REVOKED_BYTES_MAX = 100_000  # of the last revocations, so that their node stays small
KEY_MAX = 100  # of a contender's name there: all of ours are shorter
TRIES = 10
BATCH_MAX = 200


class Contender(NamedTuple):
    """The node of a holder or waiter, with its data."""

    path: str
    data: bytes
    stat: Stat
    role: Role
    waits: bool

    @property
    def child(self) -> str:
        return self.path.rpartition("/")[2]


class Inspection:
    """Inspects and revokes locks by one client's connection."""

    def __init__(self, world: World, connection: Connection, folders: Folders) -> None:
        self._world = world
        self._connection = connection
        self._folders = folders

    async def inspect(self, name: str) -> State:
        contenders = await self._contenders(name)
        holders = [self._holding(name, x) for x in contenders if not x.waits]
        waiters = [
            Waiting(self._age(x), self._read(x.data)[1], x.role) for x in contenders if x.waits
        ]
        limits = (paths.limit(x.child) for x in contenders if x.role == "semaphore")
        limit = next((known for known in limits if known is not None), None)
        return State(name, tuple(holders), tuple(waiters), limit)

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
        for name in await self._shared_names():
            if name.startswith(prefix):
                found += await self._holders(name, shared=True)
        return sorted(found, key=lambda holding: holding.name)

    def _folders_in(self, path: str, children: list[str]) -> list[str]:
        ours = (c for c in children if paths.sequence(c) is None and c not in paths.OURS)
        return [f"{path}/{child}" for child in ours if path or child != paths.SYSTEM]

    async def _shared_names(self) -> list[str]:
        """List the names that have the folder of a read/write lock or of a semaphore."""
        kinds = [f"{self._folders.root}/{kind}" for kind in paths.KINDS.values()]
        found: set[str] = set()
        for listed in await self._connection.call(*map(messages.get_children, kinds)):
            if not isinstance(listed, Exception):
                found |= {name for c in listed if paths.segment(name := paths.decode(c)) == c}
        return sorted(found)

    async def _holder(self, path: str, children: list[str], prefix: str) -> list[Holding]:
        order = await self._folders.order(path, children)
        if not order or path == self._folders.root:
            return []
        name = self._folders.name(path)
        if not name.startswith(prefix) or self._folders.path(name) != path:
            return []
        first = f"{path}/{order[0]}"
        (found,) = await self._connection.call(messages.get_data(first))
        if isinstance(found, Exception):  # just released: read the next holder
            return await self._holders(name, shared=False)
        return [self._holding(name, Contender(first, found[0], found[1], "lock", waits=False))]

    async def _holders(self, name: str, *, shared: bool) -> list[Holding]:
        """Read the holders of a name: of its read/write lock and semaphore, or of its mutex."""
        found = await self._contenders(name, with_waiters=False)
        return [self._holding(name, one) for one in found if (one.role != "lock") is shared]

    async def revoke(self, name: str, reason: str) -> bool:
        """Delete the nodes of all holders, each in a transaction that stores the reason."""
        for _ in range(TRIES):
            holders = await self._contenders(name, with_waiters=False)
            if not holders:
                return False
            revoked = [await self._revoke(holder, reason) for holder in holders]
            if any(revoked):
                return True
        raise Unavailable(
            f"{name!r} changed hands faster than it could be revoked; nothing is done"
        )

    async def _revoke(self, holder: Contender, reason: str) -> bool:
        """Delete the node of one holder; return False if the holder left by itself."""
        for _ in range(TRIES):
            found = await self._reasons()
            if found is None:
                continue
            reasons, version = found
            record = messages.set_data(
                self._folders.revoked,
                _written([*reasons.items(), (_key(holder.child), reason)]),
                version,
            )
            (reply,) = await self._connection.call(
                messages.multi([messages.delete(holder.path), record])
            )
            if not any(isinstance(one, Exception) for one in reply):
                return True
            if isinstance(reply[0], messages.NoNode):
                return False
        return False

    async def why_gone(self, grant: Grant, is_ours: bool) -> Gone:
        """Return why the node of a grant no longer exists."""
        (found,) = await self._connection.call(messages.get_data(self._folders.revoked))
        reasons: Any = {} if isinstance(found, Exception) else json.loads(found[0] or b"{}")
        beginnings = paths.beginnings(grant.owner)
        for child, reason in reasons.items():
            if child.startswith(beginnings):
                return Gone("revoked", reason)
        if is_ours:  # our session is alive, so the server has not deleted it
            return Gone("revoked", "its node was deleted from ZooKeeper")
        return Gone("expired", "its node is gone from ZooKeeper")

    async def _reasons(self) -> tuple[dict[str, str], int] | None:
        """Read the last revocations and the version of their node; None if it had to be created."""
        path = self._folders.revoked
        (found,) = await self._connection.call(messages.get_data(path))
        if isinstance(found, Exception):
            await self._connection.call(messages.create_persistent(path, messages.OPEN))
            return None
        data, stat = found
        return json.loads(data or b"{}"), stat.version

    async def _contenders(self, name: str, *, with_waiters: bool = True) -> list[Contender]:
        """Read the holders and waiters of a name, in order, with their data.

        A holder that was listed and is gone when it is read has left, and the next one holds, or it
        was renamed: the name is listed again.
        """
        found: list[Contender] = []
        for _ in range(TRIES):
            listed = [one for one in await self._listed(name) if with_waiters or not one[2]]
            found = await self._read_all(listed)
            there = {contender.path for contender in found}
            if all(waits or path in there for path, _, waits in listed):
                break
        return found

    async def _read_all(self, listed: list[tuple[str, Role, bool]]) -> list[Contender]:
        found: list[Contender] = []
        for start in range(0, len(listed), BATCH_MAX):
            batch = listed[start : start + BATCH_MAX]
            replies = await self._connection.call(*[messages.get_data(path) for path, *_ in batch])
            found += [
                Contender(path, reply[0], reply[1], role, waits)
                for (path, role, waits), reply in zip(batch, replies, strict=True)
                if not isinstance(reply, Exception)
            ]
        return found

    async def _listed(self, name: str) -> list[tuple[str, Role, bool]]:
        """List the nodes of a name: the path of each, its role, and whether it waits."""
        folder = self._folders.path(name)
        rwlock, semaphore = (self._folders.shared_path(k, name) for k in paths.KINDS.values())
        locks, leases = f"{semaphore}/{paths.LOCKS}", f"{semaphore}/{paths.LEASES}"
        _, *replies = await self._connection.call(
            messages.sync(folder), *map(messages.get_children, (folder, rwlock, locks, leases))
        )
        order = self._folders.order
        mutex, shared = await order(folder, replies[0]), await order(rwlock, replies[1])
        queue = await order(locks, replies[2])
        held = [] if isinstance(replies[3], Exception) else sorted(replies[3], key=paths.lease_key)
        reading = paths.holders(shared)
        return [
            *[(f"{folder}/{child}", "lock", index > 0) for index, child in enumerate(mutex)],
            *[
                (f"{rwlock}/{child}", "read" if paths.is_reader(child) else "write", at >= reading)
                for at, child in enumerate(shared)
            ],
            *[(f"{leases}/{child}", "semaphore", False) for child in held],
            *[(f"{locks}/{child}", "semaphore", True) for child in queue],
        ]

    def _holding(self, name: str, contender: Contender) -> Holding:
        _, data, stat, role, _ = contender
        ttl, meta = self._read(data)
        age = self._age(contender)
        seen = Holding(name, read_fence(data, stat.czxid), ttl, age, ttl, meta, role)
        if role != "semaphore":
            return seen
        return seen._replace(slot=paths.slot(contender.child), limit=paths.limit(contender.child))

    def _read(self, data: bytes) -> tuple[float, Any]:
        return read_data(data, self._connection.ttl_max)

    def _age(self, contender: Contender) -> float:
        since_ms = read_since(contender.data, contender.stat.ctime_ms)
        return max(0.0, self._world.wall_us() / 1e6 - since_ms / 1e3)


def _key(child: str) -> str:
    """Return the part of a contender's name that identifies it, at a limited length."""
    return child[-KEY_MAX:]


def _written(reasons: list[tuple[str, str]]) -> bytes:
    """Encode the last of these reasons, as many as fit."""
    data = json.dumps(dict(reasons)).encode()
    while len(data) > REVOKED_BYTES_MAX:
        reasons = reasons[len(reasons) // 2 :]
        data = json.dumps(dict(reasons)).encode()
    return data
