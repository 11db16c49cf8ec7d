"""Renews all leases of a client in one transaction, or a few: a server accepts requests of up to a
megabyte.

If no ttl has changed, it writes nothing and *checks* that every node exists. A majority takes part
in that all the same, which is the proof of contact from which the leases count anew. A read would
prove nothing: a member that has lost the others goes on serving reads for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Unavailable
from ...model import Gone, Grant, granted
from ...world import World
from .folders import Folders
from .inspect import Inspection
from .node import Node, key_of
from .takeover import TakeOver
from .wire import Connection, messages

TRIES = 4
BYTES_MAX = 500_000  # of one transaction, roughly: a server disconnects on requests of a megabyte


class Renewal:
    """Renews the leases of one client."""

    def __init__(
        self,
        world: World,
        connection: Connection,
        nodes: dict[str, Node],
        folders: Folders,
        inspection: Inspection,
        takeover: TakeOver,
    ) -> None:
        self._world = world
        self._connection = connection
        self._nodes = nodes
        self._folders = folders
        self._inspection = inspection
        self._takeover = takeover

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        """Check that all nodes exist, in a transaction that proves contact with a majority."""
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
                    node.child = None
        raise Unavailable("nodes vanished while they were renewed; nothing is known of the others")

    async def _held(
        self, grants: Sequence[Grant], answers: dict[str, Grant | Gone]
    ) -> list[tuple[Grant, Node]]:
        """Return the nodes of grants that may still exist; add Gone to ``answers`` for the others.

        A node that is not in our session may be in that of another client, which has created it or
        taken it over: then we take it over.
        """
        found: list[tuple[Grant, Node]] = []
        for grant in grants:
            own = node = self._nodes.get(key := key_of(grant))
            if own is not None and own.fence != grant.fence:  # a waiter's node
                own = node = None
            is_over = own is not None and own.is_over(self._connection.session_id)
            if own is not None and own.child is None and own.moved and not is_over:
                await self._folders.find(own)  # the reply to its move was lost
            if own is None or own.child is None or is_over:
                node = await self._takeover.take(grant)
            if node is not None:
                found.append((grant, node))
                continue
            if own is not None:
                self._nodes.pop(key, None)
            if is_over:
                answers[key] = Gone("session", "its ZooKeeper session has expired")
            else:
                answers[key] = await self._inspection.why_gone(grant, is_ours=own is not None)
        return found

    async def _extend(
        self, nodes: Sequence[tuple[Grant, Node]], answers: dict[str, Grant | Gone]
    ) -> bool:
        """Renew the grants if all their nodes exist; else return False: none is renewed."""
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
        """Return whether a node that is not under its old name has been moved meanwhile."""
        if not node.moved:
            return False
        node.child = None
        await self._folders.find(node)
        return node.child is not None
