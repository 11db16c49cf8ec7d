"""The ZooKeeper backend: an ensemble of three members that begins with a leader."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from ..engine import Address, Engine
from ..engines.zookeeper import paths
from ..engines.zookeeper.engine import ZooKeeperEngine
from ..engines.zookeeper.options import DEFAULT_ROOT, PORT
from .backends import Backend
from .edge_zookeeper import ZooKeeperEdge, install
from .network import Host
from .world import SimWorld
from .zookeeper_member import Member, ensemble

install()

ROOT = DEFAULT_ROOT
"""The znode under which all locks are kept."""


class ZooKeeperBackend(Backend):
    """Three members. The state of the lock is what the most advanced of them has applied."""

    is_tiered = True
    detection_bound_s = 60.0
    session_s = 0.0
    """The timeout of its clients' sessions; 0 means four times their request timeout."""

    def _hosts(self) -> list[Any]:
        return list(ensemble(self.network))

    @cached_property
    def _folder(self) -> str:
        return f"{ROOT}/{paths.encode(self.name)}"

    def reach(self, world: SimWorld, host: Host) -> None:
        """Connect a process to the simulated network."""
        world.edge = ZooKeeperEdge(self.network, host, {one.name: one for one in self.hosts})

    def engine(self, world: SimWorld, host: Host) -> Engine:
        self.reach(world, host)
        members = tuple((member.name, PORT) for member in self.hosts)
        options = {"session": self.session_s or 4 * self.request_timeout}
        return ZooKeeperEngine(world, Address("zookeeper", members, options=options))

    def owner(self, owner: str) -> str:
        return paths.protected(owner, "kazoo")

    def contenders(self, member: Member) -> list[tuple[str, int]]:
        """Return the contenders of the lock as a member has them, the holder first: the hash of
        each owner, and the session of its znode."""
        path, nodes = self._folder, member.tree.nodes
        folder = nodes.get(path)
        found = [] if folder is None else paths.contenders(folder.children)
        return [(child[: paths.HASH_DIGITS], nodes[f"{path}/{child}"].session) for child in found]

    def _order(self, member: Member) -> list[str]:
        return [owner for owner, _ in self.contenders(member)]

    def owners(self) -> list[str]:
        return [next(iter(self._order(member)), "") for member in self.hosts]

    def holder(self) -> str:
        return next(iter(self._order(self._furthest())), "")

    def queue(self) -> Sequence[str]:
        return self._order(self._furthest())[1:]

    def revoked(self) -> Collection[str]:
        return self.revoked_at(self._furthest())

    def revoked_at(self, member: Member) -> Collection[str]:
        """Return the owners whose lease was revoked, as one member has them."""
        node = member.tree.nodes.get(f"{ROOT}/{paths.REVOKED}")
        reasons: dict[str, str] = json.loads(node.data) if node is not None and node.data else {}
        return [child[: paths.HASH_DIGITS] for child in reasons]

    def _furthest(self) -> Member:
        members: list[Member] = self.hosts
        return max(members, key=lambda member: member.tree.zxid)
