"""The backend of ZooKeeper: an ensemble of three that has a leader."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
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


class ZooKeeperBackend(Backend):
    """Three members. What is kept is what the furthest of them has applied."""

    is_tiered = True
    looks_within = 60.0
    session_s = 0.0
    """The timeout of its clients' sessions; 0: four times what they wait for an answer."""

    def _hosts(self) -> list[Any]:
        return list(ensemble(self.network))

    def engine(self, world: SimWorld, host: Host) -> Engine:
        world.edge = ZooKeeperEdge(self.network, host, {one.name: one for one in self.hosts})
        members = tuple((member.name, PORT) for member in self.hosts)
        options = {"session": self.session_s or 4 * self.request_timeout}
        return ZooKeeperEngine(world, Address("zookeeper", members, options=options))

    def owner(self, owner: str) -> str:
        return paths.protected(owner, "kazoo")

    def _order(self, member: Member) -> list[str]:
        folder = member.tree.nodes.get(f"{DEFAULT_ROOT}/{paths.encode(self.name)}")
        found = [] if folder is None else paths.contenders(folder.children)
        return [child[:-10] for child in found]

    def owners(self) -> list[str]:
        return [next(iter(self._order(member)), "") for member in self.hosts]

    def holder(self) -> str:
        return next(iter(self._order(self._furthest())), "")

    def queue(self) -> Sequence[str]:
        return self._order(self._furthest())[1:]

    def revoked(self) -> Collection[str]:
        node = self._furthest().tree.nodes.get(f"{DEFAULT_ROOT}/{paths.REVOKED}")
        reasons: dict[str, str] = json.loads(node.data) if node is not None and node.data else {}
        return [child[:-10] for child in reasons]

    def _furthest(self) -> Member:
        members: list[Member] = self.hosts
        return max(members, key=lambda member: member.tree.zxid)
