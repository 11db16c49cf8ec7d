"""Deletes the nodes of one client: on request of their owners, or at their end.

A node lives as long as its session, which the connection keeps alive for all locks of a client. So
the client itself deletes the node of a lease whose ttl has passed, and of a waiter that was woken
and did not return. A deletion that fails is retried until it succeeds or the session has ended: no
node of ours is left without an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...world import World, snapshot
from ..timer import NEVER, Timer
from .folders import Folders
from .node import Node
from .wire import Connection, messages
from .wire.messages import Request

BATCH_MAX = 100
EMPTY_S = 30.0  # how long an unused folder stays, on servers without container nodes


class Deletion:
    """Deletes nodes at once, and in the background those at their end and those that failed."""

    def __init__(
        self, world: World, connection: Connection, nodes: dict[str, Node], folders: Folders
    ) -> None:
        self._world = world
        self._connection = connection
        self._nodes = nodes
        self._folders = folders
        self._unused: dict[str, float] = {}  # folders, and when to delete each
        self.timer = Timer(world, self._delete_due, "fencelock-deletion")

    async def leave(self, node: Node) -> bool:
        """Delete a node, even if its creation was not answered; return whether it existed."""
        if node.child is None and node.create_sent and not self._is_over(node):
            try:
                await self._folders.find(node)
            except BaseException:
                node.keep_until(self._world.now())
                raise
        freed = False
        if node.child is not None and not self._is_over(node):
            freed = await self.delete(node)
            if not freed and node.moved:  # it may have been moved just before
                await self._folders.find(node)
                freed = await self.delete(node)
        self._forget(node)
        return freed

    async def delete(self, node: Node) -> bool:
        """Delete a node whose name is known; return whether it existed."""
        (reply,) = await self.call(node, messages.delete(node.path))
        if not self._folders.containers:
            at = self._world.now() + EMPTY_S
            self._unused.update(dict.fromkeys(node.all_folders(), at))
            self.timer.expect(at)
        return not isinstance(reply, Exception)

    async def call(self, node: Node, *requests: Request) -> list[Any]:
        """Send requests that delete a node; if they fail, the background job deletes it."""
        try:
            return await self._connection.call(*requests)
        except BaseException:
            node.keep_until(self._world.now())
            raise

    async def _delete_due(self) -> float:
        """Delete the nodes and folders that are past their end; return when the next one is."""
        now = self._world.now()
        due = [
            node
            for node in list(self._nodes.values())
            if node.delete_at <= now and node.begin_deletion(now)
        ]
        for start in range(0, len(due), BATCH_MAX):
            await self._delete_all(due[start : start + BATCH_MAX])
        for folder in [folder for folder, at in snapshot(self._unused) if at <= now]:
            await self._connection.call(messages.delete(folder))
            self._unused.pop(folder, None)
        later = [node.delete_at for node in list(self._nodes.values())]
        return min([*later, *list(self._unused.values())], default=NEVER)

    async def _delete_all(self, nodes: Sequence[Node]) -> None:
        session = self._connection.session_id
        for node in nodes:
            if node.child is None and not node.is_over(session):
                await self._folders.find(node)
        alive = [node for node in nodes if node.child and not node.is_over(session)]
        await self._connection.call(*[messages.delete(node.path) for node in alive])
        for node in nodes:
            self._forget(node)

    def _is_over(self, node: Node) -> bool:
        return node.is_over(self._connection.session_id)

    def _forget(self, node: Node) -> None:
        if self._nodes.get(node.key) is node:
            del self._nodes[node.key]
