"""Renewing: one transaction for all leases of a client, or a few, as a server takes no more than
a megabyte at once.

It writes nothing where nothing has changed; it *checks* that every node exists. A majority takes
part in it all the same, and that is the proof of contact from which the leases count anew. A read
would prove nothing: a member that has lost the others goes on answering for a while.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Unavailable
from ...model import Gone, Grant, granted
from ...world import World
from .cleanup import Sweeper
from .inspect import View
from .node import Node
from .wire import messages
from .wire.connection import Wire

TRIES = 3
BYTES_MAX = 500_000  # of one transaction, about: a server hangs up on requests of a megabyte


class Keeping:
    """Keeps the nodes of one client."""

    def __init__(
        self, world: World, wire: Wire, nodes: dict[str, Node], sweeper: Sweeper, view: View
    ) -> None:
        self._world = world
        self._wire = wire
        self._nodes = nodes
        self._sweeper = sweeper
        self._view = view

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        """One transaction sees that all nodes exist, and proves that a majority hears of us."""
        answers: dict[str, Grant | Gone] = {}
        for _ in range(TRIES):
            left = [grant for grant in grants if grant.owner not in answers]
            nodes = await self._held(left, answers)
            if not nodes or await self._extend(nodes, answers):
                return [answers[grant.owner] for grant in grants]
            paths = [node.path for _, node in nodes]
            found = await self._wire.call(*map(messages.exists, paths))
            for (grant, node), stat in zip(nodes, found, strict=True):
                if stat is None:
                    self._nodes.pop(grant.owner, None)
                    answers[grant.owner] = await self._view.why_gone(node)
        raise Unavailable("nodes vanished while they were renewed; nothing is known of the others")

    async def _held(
        self, grants: Sequence[Grant], answers: dict[str, Grant | Gone]
    ) -> list[tuple[Grant, Node]]:
        """The nodes of grants that may still be; of the others, that they are gone."""
        found: list[tuple[Grant, Node]] = []
        for grant in grants:
            node = self._nodes.get(grant.owner)
            if node is None or node.child is None:
                answers[grant.owner] = await self._view.why_not_ours(grant)
            elif node.is_over(self._wire.session):
                answers[grant.owner] = Gone("session", "its ZooKeeper session has expired")
            else:
                found.append((grant, node))
        return found

    async def _extend(
        self, nodes: Sequence[tuple[Grant, Node]], answers: dict[str, Grant | Gone]
    ) -> bool:
        sent_at = self._world.now()
        limit = self._wire.limit
        transactions: list[list[messages.Request]] = []
        size = BYTES_MAX
        for grant, node in nodes:
            ttl = min(grant.ttl, limit)
            same = ttl == node.ttl
            path, data = node.path, b"" if same else node.data(ttl)
            size += len(path) + len(data)
            if size > BYTES_MAX:
                transactions.append([])
                size = len(path) + len(data)
            transactions[-1].append(messages.check(path) if same else messages.put(path, data))
        results = await self._wire.call(*map(messages.together, transactions))
        if any(isinstance(one, Exception) for result in results for one in result):
            return False
        for grant, node in nodes:
            node.ttl = min(grant.ttl, limit)
            node.until = sent_at + node.ttl
            if node.doomed:
                answers[grant.owner] = Gone("expired", "its ttl was over before it was renewed")
                continue
            self._sweeper.nudge(node.until)
            answers[grant.owner] = granted(grant.name, grant.owner, grant.fence, node.ttl, sent_at)
        return True
