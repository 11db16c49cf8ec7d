"""The Redis backends: one server, or several that do not know each other, under Redlock."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from fencelock.engine import Address, Engine
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.keys import holders_of
from fencelock.engines.redlock.engine import RedlockEngine
from fencelock.sim.backends import Backend, Held
from fencelock.sim.edge import install
from fencelock.sim.edge_fanout import Edge
from fencelock.sim.model_redis import LockSnapshot, ModelRedis
from fencelock.sim.network import Host, Network
from fencelock.sim.nodes import Node
from fencelock.sim.world import SimWorld

install()


class RedisBackend(Backend):
    """One server."""

    nodes = 1

    def __init__(
        self,
        network: Network,
        request_timeout: float,
        kind: str = "lock",
        name: str = "seat",
        hosts: list[Any] | None = None,
    ) -> None:
        super().__init__(network, request_timeout, kind, name, hosts)
        self._snapshots = None if hosts is None else [LockSnapshot() for _ in hosts]
        self._seen = [""] * self.nodes
        """The owner in each server's last snapshot, whether or not its record has expired since."""
        self._revoked: dict[str, None] = {}
        key, self._shares = name.encode(), holders_of(name, kind).encode()
        beside = b"{%b}:fencelock:" % key
        self._observed_keys = (key, beside + b"queue", beside + b"revoked")
        if kind != "lock":
            self._observed_keys = (b"", self._shares + b":queue", self._shares + b":revoked")

    def _hosts(self) -> list[Any]:
        hosts = list[Any]()
        for number in range(self.nodes):
            random = self.network.simulation.stream(f"clock node-{number}")
            ahead, pace = random() * 2.0, 1 + (random() - 0.5) * 0.006
            hosts.append(Node(self.network, f"node-{number}", ahead, pace))
        return hosts

    def _snapshot(self, place: int) -> LockSnapshot:
        snapshot: LockSnapshot = (
            self._snapshots[place] if self._snapshots else self.hosts[place].model.snapshot
        )
        return snapshot

    def engine(self, world: SimWorld, host: Host) -> Engine:
        world.edge = Edge(self.network, host, {node.name: node for node in self.hosts})
        return self.make(world, tuple((node.name, 6379) for node in self.hosts))

    def make(self, world: SimWorld, hosts: tuple[tuple[str, int], ...]) -> Engine:
        return RedisEngine(
            world, Address("redis", hosts, options={"request_timeout": self.request_timeout})
        )

    def watch(self, changed: Callable[[], object]) -> None:
        for place, node in enumerate(self.hosts):
            node.watchers.append(partial(self._update_snapshot, place, node.model, changed))

    def _update_snapshot(
        self, place: int, model: ModelRedis, changed: Callable[[], object]
    ) -> None:
        other = self._snapshots[place] if self._snapshots else None
        if model.update_snapshot(*self._observed_keys, other):
            snapshot = self._snapshot(place)
            self._seen[place] = snapshot.owner
            for owner in snapshot.revoked:
                self._revoked[owner] = None
            changed()

    def holders(self) -> dict[str, Held]:
        (node,) = self.hosts
        now, now_us = self.network.simulation.now, node.wall_us()
        records = _pairs(node.model.execute([b"HGETALL", self._shares]))
        words = (b"ZRANGE", self._shares + b":expiry", b"0", b"-1", b"WITHSCORES")
        ends = {
            owner: now + (float(until_ms) * 1000 - now_us) / 1e6
            for owner, until_ms in _pairs(node.model.execute(words)).items()
        }
        held: dict[str, Held] = {}
        for owner, record in records.items():
            if owner != "=" and ends.get(owner, now) > now:
                _, units, slot, *_ = record.split(" ", 3)
                number = int(slot) if slot.isdigit() else None
                held[owner] = Held(int(units), number, ends[owner])
        return held

    def owners(self) -> list[str]:
        if self.kind != "lock":
            return list(self.holders())
        owners: list[str] = []
        for place, node in enumerate(self.hosts):
            snapshot = self._snapshot(place)
            owners.append(
                snapshot.owner if snapshot.owner and node.wall_us() < snapshot.until_us else ""
            )
        return owners

    def kept_until(self) -> float:
        (node,) = self.hosts
        left_s: float = (self._snapshot(0).until_us - node.wall_us()) / 1e6
        return self.network.simulation.now + left_s

    def queue(self) -> Sequence[str]:
        return self._snapshot(0).queue

    def revoked(self) -> Collection[str]:
        return self._revoked.keys()


def _pairs(reply: Sequence[Any]) -> Mapping[str, str]:
    words = [one.decode() for one in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


class RedlockBackend(RedisBackend):
    """Three servers that do not know each other."""

    nodes = 3
    fifo = False
    detection_bound_s = 1.5

    def holder(self) -> str:
        seen = self._seen
        half = len(seen) // 2
        for owner in seen[: half + 1]:
            if owner and seen.count(owner) > half:
                return owner if self.owners().count(owner) > half else ""
        return ""

    def make(self, world: SimWorld, hosts: tuple[tuple[str, int], ...]) -> Engine:
        request_timeout = 0.4 * self.request_timeout
        return RedlockEngine(
            world, Address("redlock", hosts, options={"request_timeout": request_timeout})
        )

    def kept_until(self) -> float:
        return 0.0

    def queue(self) -> Sequence[str]:
        return ()
