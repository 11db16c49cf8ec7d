"""Renews all leases of a client by one transaction, or a few: a server takes no more than a
megabyte at once.

It writes nothing where nothing has changed; it *checks* that every node exists. A majority takes
part in it all the same, and that is the proof of contact from which the leases count anew. A read
would prove nothing: a member that has lost the others goes on answering for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Unavailable
from ...model import Gone, Grant, granted
from ...world import World
from .folders import Folders
from .inspect import Inspection
from .node import Node, key_of
from .wire import Connection, messages

TRIES = 3
BYTES_MAX = 500_000  # of one transaction, about: a server hangs up on requests of a megabyte


class Renewal:
    """Renews the leases of one client."""

    def __init__(
        self,
        world: World,
        connection: Connection,
        nodes: dict[str, Node],
        folders: Folders,
        inspection: Inspection,
    ) -> None:
        self._world = world
        self._connection = connection
        self._nodes = nodes
        self._folders = folders
        self._inspection = inspection

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        """Check that all nodes exist, by a transaction that proves that a majority knows us."""
        answers: dict[str, Grant | Gone] = {}
        for _ in range(TRIES):
            left = [grant for grant in grants if key_of(grant) not in answers]
            nodes = await self._held(left, answers)
            if not nodes or await self._extend(nodes, answers):
                return [answers[key_of(grant)] for grant in grants]
            paths = [node.path for _, node in nodes]
            found = await self._connection.call(*map(messages.exists, paths))
            for (_, node), stat in zip(nodes, found, strict=True):
                if stat is None and not await self._has_moved(node):
                    self._nodes.pop(node.key, None)
                    answers[node.key] = await self._inspection.why_gone(node)
        raise Unavailable("nodes vanished while they were renewed; nothing is known of the others")

    async def _held(
        self, grants: Sequence[Grant], answers: dict[str, Grant | Gone]
    ) -> list[tuple[Grant, Node]]:
        """Return the nodes of grants that may still be; answer that the others are gone."""
        found: list[tuple[Grant, Node]] = []
        for grant in grants:
            node = self._nodes.get(key := key_of(grant))
            if node is not None and node.child is None and node.moved:
                await self._folders.find(node)  # its new name was not answered
            if node is None or node.child is None:
                answers[key] = await self._inspection.why_not_ours(grant)
            elif node.is_over(self._connection.session_id):
                answers[key] = Gone("session", "its ZooKeeper session has expired")
            else:
                found.append((grant, node))
        return found

    async def _extend(
        self, nodes: Sequence[tuple[Grant, Node]], answers: dict[str, Grant | Gone]
    ) -> bool:
        """Renew what exists; False when a node does not, and then none is renewed."""
        sent_at = self._world.now()
        ttl_max = self._connection.ttl_max
        transactions: list[list[messages.Request]] = []
        size = BYTES_MAX
        for grant, node in nodes:
            ttl = min(grant.ttl, ttl_max)
            same = ttl == node.ttl
            path, data = node.path, b"" if same else node.data(ttl)
            size += len(path) + len(data)
            if size > BYTES_MAX:
                transactions.append([])
                size = len(path) + len(data)
            transactions[-1].append(messages.check(path) if same else messages.set_data(path, data))
        results = await self._connection.call(*map(messages.multi, transactions))
        if any(isinstance(one, Exception) for result in results for one in result):
            return False
        for grant, node in nodes:
            node.ttl = min(grant.ttl, ttl_max)
            node.keep_until(sent_at + node.ttl)
            if node.deleting:
                answers[node.key] = Gone("expired", "its ttl was over before it was renewed")
                continue
            name, owner, fence, *_, share = grant
            answers[node.key] = granted(name, owner, fence, node.ttl, sent_at, share)
        return True

    async def _has_moved(self, node: Node) -> bool:
        """Whether a node that is not where it was has got another name meanwhile."""
        if not node.moved:
            return False
        before, node.child = node.child, None
        await self._folders.find(node)
        if node.child is not None:
            return True
        node.child = before
        return False
