"""The folders of locks: made when they are missing, removed when nobody uses them.

A folder is a container node: the server removes it some time after its last child has gone. Where
the server has no such nodes (before 3.5), the sweeper removes empty folders that we have used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import Unavailable
from . import paths
from .cleanup import Sweeper
from .node import Node
from .wire import messages
from .wire.connection import Wire
from .wire.messages import Acl, Request

TRIES = 5


class Folders:
    """Where the locks of one client lie."""

    def __init__(self, wire: Wire, sweeper: Sweeper, root: str, acl: Acl) -> None:
        self._wire = wire
        self._sweeper = sweeper
        self._acl = acl
        self.root = root
        self.containers = True
        """The server has container nodes, as far as we know."""

    def path(self, name: str) -> str:
        """The folder of a name."""
        return f"{self.root}/{paths.encode(name)}"

    def name(self, path: str) -> str:
        """The name that a folder belongs to."""
        return paths.decode(path[len(self.root) + 1 :])

    @property
    def revoked(self) -> str:
        """The node that remembers why leases were taken away."""
        return f"{self.root}/{paths.REVOKED}"

    async def order(self, folder: str, children: Iterable[str]) -> list[str]:
        """The contenders among the children of a folder, first come first."""
        order = paths.contenders(children)
        if not paths.is_spent(order):
            return order
        stats = await self._wire.call(*[messages.exists(f"{folder}/{child}") for child in order])
        known = [(stat.czxid, child) for child, stat in zip(order, stats, strict=True) if stat]
        return [child for _, child in sorted(known)]

    def left(self, folder: str) -> None:
        """A node of ours has gone from there."""
        if not self.containers:
            self._sweeper.leave_folder(folder)

    async def ensuring(self, node: Node, *wanted: Request) -> list[Any]:
        """Make requests of which the first creates a node; its folder is made if it is missing."""
        for _ in range(TRIES):
            answers = await self._wire.call(*wanted, session=node.session)
            if not isinstance(answers[0], Exception):
                return answers
            await self._make(node.folder)
        raise Unavailable(
            f"the folder {node.folder} vanishes as soon as it is made; nothing is held"
        )

    async def _make(self, folder: str) -> None:
        """Make a folder and all above it, in one go; those that exist stay as they are."""
        steps = folder.split("/")
        above = ["/".join(steps[:depth]) for depth in range(2, len(steps) + 1)]
        wanted = [
            messages.create_folder(path, self._acl, self.containers and len(path) > len(self.root))
            for path in above
        ]
        for answer in await self._wire.call(*wanted):
            if isinstance(answer, messages.Unimplemented):
                self.containers = False
