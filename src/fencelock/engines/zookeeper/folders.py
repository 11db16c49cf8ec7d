"""The parent nodes of contenders, called folders: created when missing, and listed in order.

A folder is a container node: the server deletes it some time after its last child. For servers
without container nodes (before 3.5), ``deletion.py`` deletes the empty folders that we have used.
"""

from __future__ import annotations

from typing import Any

from ...errors import Unavailable
from ...model import Grant, Request
from . import paths
from .node import Node, read_fence
from .wire import Connection, messages
from .wire.connection import failure_of
from .wire.messages import Acl

TRIES = 5


class Folders:
    """Finds, creates and lists the folders of one client's locks."""

    def __init__(self, connection: Connection, root: str, acl: Acl, recipe: str) -> None:
        self._connection = connection
        self._recipe = recipe
        self.acl = acl
        self.root = root
        self.containers = True
        """Whether the server has container nodes, as far as we know."""

    def location(self, of: Request | Grant) -> paths.Location:
        """Return where the node of a request or a grant is created."""
        return paths.location(self.root, of.name, of.owner, self._recipe, of.share)

    def path(self, name: str) -> str:
        """Return the folder of a name."""
        return f"{self.root}/{paths.encode(name)}"

    def shared_path(self, kind: str, name: str) -> str:
        """Return the folder of a name's read/write lock, semaphore or memory."""
        return f"{self.root}/{kind}/{paths.segment(name)}"

    def name(self, path: str) -> str:
        """Return the name that a folder belongs to."""
        return paths.decode(path[len(self.root) + 1 :])

    @property
    def revoked(self) -> str:
        """The path of the node with the reasons of revocations."""
        return f"{self.root}/{paths.REVOKED}"

    async def contenders(self, folder: str) -> list[str]:
        """List the contenders of a folder in order."""
        (listed,) = await self._connection.call(messages.get_children(folder))
        return await self.order(folder, listed)

    async def order(self, folder: str, listed: Any) -> list[str]:
        """Return the contenders among the listed children of a folder, in order."""
        if isinstance(listed, Exception):  # the folder is gone
            return []
        order = paths.contenders(listed)
        if not paths.is_spent(order):
            return order
        found = await self._connection.call(
            *[messages.get_data(f"{folder}/{child}") for child in order]
        )
        known = [
            (read_fence(reply[0], reply[1].czxid), child)
            for child, reply in zip(order, found, strict=True)
            if not isinstance(reply, Exception)
        ]
        return [child for _, child in sorted(known)]

    async def create_and_list(self, node: Node) -> Any:
        """Create a node and list its folder in one batch; create the folder if it is missing."""
        path = f"{node.folder}/{node.prefix}{node.label}"
        creation = messages.create(path, node.data(node.ttl), self.acl)
        requests = (creation, *node.listing_requests())
        for _ in range(TRIES):
            created, *listed = await self._connection.call(*requests, session=node.session)
            if not isinstance(created, Exception):
                path, stat = created
                node.child = str(path[len(node.folder) + 1 :])
                node.fence, node.session = stat.czxid, stat.session
                return node.read_listing(listed)
            await self._make_all(node)
        raise Unavailable(
            f"the folder {node.folder} was deleted each time it was created; nothing is held"
        )

    async def move(self, node: Node, folder: str, child: str) -> bool:
        """Rename a node in one transaction; return False if the node is gone.

        Until the reply it may have either name, and ``find`` reads which. It keeps its fence.
        """
        before, old = node.child, node.path
        node.moved, node.child = True, None
        creation = messages.create_named(f"{folder}/{child}", node.data(node.ttl), self.acl)
        both = messages.multi([messages.delete(old), creation])
        for _ in range(TRIES):
            (reply,) = await self._connection.call(both, session=node.session)
            node.child = before
            if failure_of(reply) is None:
                node.folder, node.child = folder, child
                return True
            if isinstance(reply[0], messages.NoNode):
                return False
            await self._make_all(node)
            node.child = None
        raise Unavailable(
            f"the folder {folder} was deleted each time it was created; nothing is held"
        )

    async def _make_all(self, node: Node) -> None:
        """Create the folders of a node."""
        await self.make(node.folder)
        if node.lease_folder:
            await self.make(node.lease_folder)

    async def make(self, folder: str) -> None:
        """Create a folder and all its parents in one batch; those that exist are unchanged."""
        steps = folder.split("/")
        above = ["/".join(steps[:depth]) for depth in range(2, len(steps) + 1)]
        for reply in await self._connection.call(*map(self._creation, above)):
            if isinstance(reply, messages.Unimplemented):
                self.containers = False

    def _creation(self, path: str) -> messages.Request:
        """Return the request that creates a folder: a container node if it is below the root."""
        if self.containers and len(path) > len(self.root):
            return messages.create_container(path, self.acl)
        return messages.create_persistent(path, self.acl)

    async def find(self, node: Node) -> list[str]:
        """Find a node whose creation or move was not answered, and list its folder.

        The server first syncs with its leader: the node may have been created through another
        member. A node that an earlier session of ours has left behind does not count.
        """
        folder, call = node.folder, self._connection.call
        _, *replies = await call(messages.sync(folder), *node.listing_requests())
        listed = node.read_listing(replies)
        children: list[str] = [] if isinstance(listed, Exception) else listed
        everywhere = [
            *[(folder, child) for child in children],
            *[(node.lease_folder, child) for child in node.leases],
        ]
        alike = [(parent, child) for parent, child in everywhere if child.startswith(node.prefix)]
        stats = await call(*[messages.exists(f"{parent}/{child}") for parent, child in alike])
        for (parent, child), stat in zip(alike, stats, strict=True):
            if stat and stat.session == self._connection.session_id:
                node.folder, node.child, node.session = parent, child, stat.session
                node.fence = node.fence or stat.czxid
        return children
