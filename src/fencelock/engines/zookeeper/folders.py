"""The folders of locks: made when they are missing, and read in the order of the contenders.

A folder is a container node: the server removes it some time after its last child has gone. Where
the server has no such nodes (before 3.5), ``deletion.py`` removes empty folders that we have used.
"""

from __future__ import annotations

from typing import Any

from ...errors import Unavailable
from . import paths
from .node import Node
from .wire import Connection, messages
from .wire.messages import Acl

TRIES = 5


class Folders:
    """Where the locks of one client lie."""

    def __init__(self, connection: Connection, root: str, acl: Acl) -> None:
        self._connection = connection
        self._acl = acl
        self.root = root
        self.containers = True
        """The server has container nodes, as far as we know."""

    def path(self, name: str) -> str:
        """Return the folder of a name."""
        return f"{self.root}/{paths.encode(name)}"

    def name(self, path: str) -> str:
        """Return the name that a folder belongs to."""
        return paths.decode(path[len(self.root) + 1 :])

    @property
    def revoked(self) -> str:
        """The node that remembers why leases were taken away."""
        return f"{self.root}/{paths.REVOKED}"

    async def contenders(self, folder: str) -> list[str]:
        """List the contenders of a folder, first come first."""
        (listed,) = await self._connection.call(messages.get_children(folder))
        return await self.order(folder, listed)

    async def order(self, folder: str, listed: Any) -> list[str]:
        """Return the contenders among the listed children of a folder, first come first."""
        if isinstance(listed, Exception):  # no folder any more
            return []
        order = paths.contenders(listed)
        if not paths.is_spent(order):
            return order
        stats = await self._connection.call(
            *[messages.exists(f"{folder}/{child}") for child in order]
        )
        known = [(stat.czxid, child) for child, stat in zip(order, stats, strict=True) if stat]
        return [child for _, child in sorted(known)]

    async def create_and_list(self, node: Node) -> Any:
        """Create a node and list its folder, in one go; the folder is made if it is missing."""
        creation = messages.create(f"{node.folder}/{node.prefix}", node.data(node.ttl), self._acl)
        listing = messages.get_children(node.folder)
        for _ in range(TRIES):
            created, listed = await self._connection.call(creation, listing, session=node.session)
            if not isinstance(created, Exception):
                path, stat = created
                node.child = str(path[len(node.folder) + 1 :])
                node.fence, node.session = stat.czxid, stat.session
                return listed
            await self._make(node.folder)
        raise Unavailable(
            f"the folder {node.folder} vanishes as soon as it is made; nothing is held"
        )

    async def _make(self, folder: str) -> None:
        """Make a folder and all above it, in one go; those that exist stay as they are."""
        steps = folder.split("/")
        above = ["/".join(steps[:depth]) for depth in range(2, len(steps) + 1)]
        for reply in await self._connection.call(*map(self._creation, above)):
            if isinstance(reply, messages.Unimplemented):
                self.containers = False

    def _creation(self, path: str) -> messages.Request:
        """Return the request for a folder: the root and all above it stay, others go if unused."""
        if self.containers and len(path) > len(self.root):
            return messages.create_container(path, self._acl)
        return messages.create_persistent(path, self._acl)

    async def find(self, node: Node, *, any_session: bool = False) -> list[str]:
        """Find a node whose creation was not answered, and list the children of its folder.

        The server first catches up with its leader: the creation may have been made through
        another. What an earlier session of ours has left behind is not it; ``any_session`` takes
        that as well.
        """
        folder, call = node.folder, self._connection.call
        _, listed = await call(messages.sync(folder), messages.get_children(folder))
        children: list[str] = [] if isinstance(listed, Exception) else listed
        alike = [child for child in children if child.startswith(node.prefix)]
        stats = await call(*[messages.exists(f"{folder}/{child}") for child in alike])
        for child, stat in zip(alike, stats, strict=True):
            if stat and (any_session or stat.session == self._connection.session_id):
                node.child, node.fence, node.session = child, stat.czxid, stat.session
        return children
