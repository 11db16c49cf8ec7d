"""Moves the node of a grant into the session of the client that continues it.

An ephemeral node is deleted with the session that created it, so another client that renews a grant
creates a new node, in one transaction that deletes the old one:

* The sequence number in its name stays, and so does its position: no contender comes between, and a
  waiter for the old node lists the queue again and finds the new one before its own.
* The name has the id of the new session. A client that only knows the old name, such as its
  creator, deletes nothing of ours by it, and finds at its next renewal that the node is gone.
* The fence is written into the node's data, as the new node has another czxid. The node of a grant
  is the one with its owner's hash and its fence: another node of the owner, in a queue, is not
  mistaken for it.

Any client that knows the owner id may do that, and so may the client that handed it over: the last
one has it.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import Unavailable
from ...model import Grant, Request
from ...world import World
from . import paths
from .deletion import Deletion
from .folders import Folders
from .node import Node, key_of, read_fence, read_since, read_words
from .wire import Connection, messages
from .wire.connection import failure_of
from .wire.messages import Stat

TRIES = 10


class Found(NamedTuple):
    """The node of a grant, in any session."""

    folder: str
    child: str
    data: bytes
    stat: Stat


class TakeOver:
    """Finds the nodes of grants that other clients have created, and takes them over."""

    def __init__(
        self,
        world: World,
        connection: Connection,
        nodes: dict[str, Node],
        folders: Folders,
        deletion: Deletion,
    ) -> None:
        self._world = world
        self._connection = connection
        self._nodes = nodes
        self._folders = folders
        self._deletion = deletion

    async def take(self, grant: Grant) -> Node | None:
        """Move the node of a grant into our own session; None if the node is gone."""
        for _ in range(TRIES):
            if (found := await self._find(grant)) is None:
                return None
            own = self._nodes.get(key_of(grant))
            if own is not None and own.fence != grant.fence:
                await self._deletion.leave(own)  # it is in the queue, waiting for this very grant
            node = self._node(grant, found)
            if await self._move(node, found):
                return node
        raise self._too_fast(grant)

    async def release(self, grant: Grant) -> bool:
        """Delete the node of a grant in any session; return False if it is gone."""
        for _ in range(TRIES):
            if (found := await self._find(grant)) is None:
                return False
            node = self._node(grant, found)
            node.child = found.child
            if await self._deletion.delete(node):
                return True
        raise self._too_fast(grant)

    async def _find(self, grant: Grant) -> Found | None:
        """Find the node of a grant and read it, after a sync of the server with its leader.

        A node that was listed and is gone when it is read may have been moved: the folder is listed
        again. No listing lacks both names.
        """
        location = self._folders.location(grant)
        folder = location.leases or location.folder
        call = self._connection.call
        for _ in range(TRIES):
            _, listed = await call(messages.sync(folder), messages.get_children(folder))
            children: list[str] = [] if isinstance(listed, Exception) else listed
            alike = [child for child in children if child.startswith(paths.beginnings(grant.owner))]
            replies = await call(*[messages.get_data(f"{folder}/{child}") for child in alike])
            for child, reply in zip(alike, replies, strict=True):
                if isinstance(reply, Exception):
                    continue
                data, stat = reply
                if read_fence(data, stat.czxid) == grant.fence:
                    return Found(folder, child, data, stat)
            if not any(isinstance(reply, Exception) for reply in replies):
                return None
        raise self._too_fast(grant)

    def _too_fast(self, grant: Grant) -> Unavailable:
        return Unavailable(f"{grant.name!r} was taken over by others, again and again; try again")

    def _node(self, grant: Grant, found: Found) -> Node:
        """Return a Node for one that another client created."""
        ttl = min(grant.ttl, self._connection.ttl_max)
        meta = read_words((found.data, found.stat))
        request = Request(grant.name, grant.owner, ttl, meta, share=grant.share)
        prefix = next(p for p in paths.beginnings(grant.owner) if found.child.startswith(p))
        location = self._folders.location(grant)._replace(prefix=prefix)
        node = Node(request, location, False, self._world.now, self._deletion.timer.expect)
        node.folder, node.fence = found.folder, grant.fence
        node.since_ms = read_since(found.data, found.stat.ctime_ms)
        node.moved = node.create_sent = True
        return node

    async def _move(self, node: Node, found: Found) -> bool:
        """Re-create a node in our session; return False if the old one is gone.

        Until the reply it may be ours: it can be found by its session, and is deleted at its end.
        """
        await self._connection.ready()  # that may begin a new session
        session = node.session = self._connection.session_id
        node.keep()
        self._nodes[node.key] = node
        child = paths.in_session(found.child, node.prefix, session)
        creation = messages.create_named(
            f"{node.folder}/{child}", node.data(node.ttl), self._folders.acl
        )
        both = messages.multi([messages.delete(f"{node.folder}/{found.child}"), creation])
        (reply,) = await self._connection.call(both, session=session)
        if failure_of(reply) is None:
            node.child = child
            return True
        if self._nodes.get(node.key) is node:
            del self._nodes[node.key]
        return False
