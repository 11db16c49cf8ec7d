"""Taking nodes away: whatever fails here is owed, and the sweeper pays."""

from __future__ import annotations

from typing import Any

from ...world import World
from .cleanup import Sweeper, locate
from .folders import Folders
from .node import Node
from .wire import messages
from .wire.connection import Wire
from .wire.messages import Request


class Leaving:
    """Deletes nodes of one client at the wish of their owners."""

    def __init__(
        self,
        world: World,
        wire: Wire,
        nodes: dict[str, Node],
        sweeper: Sweeper,
        folders: Folders,
    ) -> None:
        self._world = world
        self._wire = wire
        self._nodes = nodes
        self._sweeper = sweeper
        self._folders = folders

    async def leave(self, node: Node) -> bool:
        """Take a node away, also one whose creation was not answered; True when it was there."""
        if node.child is None and node.tried and not node.is_over(self._wire.session):
            try:
                await locate(self._wire, node)
            except BaseException:
                self._owe(node)
                raise
        freed = False
        if node.child is not None and not node.is_over(self._wire.session):
            freed = await self.delete(node)
        if self._nodes.get(node.owner) is node:
            del self._nodes[node.owner]
        return freed

    async def delete(self, node: Node) -> bool:
        """Delete a node whose name is known; True when it was there."""
        (answer,) = await self.tell(node, messages.delete(node.path))
        self._folders.left(node.folder)
        return not isinstance(answer, Exception)

    async def tell(self, node: Node, *wanted: Request) -> list[Any]:
        """Send requests that take a node away."""
        try:
            return await self._wire.call(*wanted)
        except BaseException:
            self._owe(node)
            raise

    def _owe(self, node: Node) -> None:
        node.until = self._world.now()
        self._sweeper.nudge(node.until)
