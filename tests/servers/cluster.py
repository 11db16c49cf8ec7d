"""A cluster: primaries that share the slots, each with a replica."""

from __future__ import annotations

from typing import Any

from tests.servers.group import Group
from tests.servers.redis import Redis, quoted
from tests.servers.server import free_port, until

SLOTS = 16384
NODE_TIMEOUT_MS = 1000  # a failover within two or three seconds


class Cluster(Group):
    """``primaries`` nodes that own slots, and as many replicas of each as asked for."""

    def __init__(
        self,
        primaries: int = 3,
        replicas: int = 1,
        *,
        make: type[Redis] = Redis,
        password: str | None = None,
    ) -> None:
        self._primaries = primaries
        self.nodes = [self._node(make, password) for _ in range(primaries * (1 + replicas))]
        self.servers = [*self.nodes]

    @staticmethod
    def _node(make: type[Redis], password: str | None) -> Redis:
        settings = {
            "cluster-enabled": "yes",
            "cluster-config-file": "nodes.conf",
            "cluster-node-timeout": str(NODE_TIMEOUT_MS),
            "cluster-port": str(free_port()),  # the default, port + 10000, may be no port at all
            "cluster-replica-validity-factor": "0",
            "databases": "1",
        }
        if password is not None:
            settings["masterauth"] = quoted(password)
        return make(password=password, settings=settings)

    @property
    def url(self) -> str:
        where = ",".join(node.address for node in self.nodes)
        return f"redis+cluster://{self.nodes[0].credentials}{where}"

    def join(self) -> None:
        first, *others = self.nodes
        for number, node in enumerate(self.nodes):
            node.cli("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in others:
            bus = node.settings["cluster-port"]
            first.cli("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        until(self._all_met, "all nodes of the cluster to know each other")
        self._share_the_slots()
        for number, node in enumerate(self.nodes[self._primaries :]):
            node.cli("CLUSTER", "REPLICATE", node_id(self.nodes[number % self._primaries]))
        until(self.settled, "the cluster to serve on every node")

    def _all_met(self) -> bool:
        return all(len(known(node)) == len(self.nodes) for node in self.nodes)

    def _share_the_slots(self) -> None:
        for number, node in enumerate(self.nodes[: self._primaries]):
            begin = SLOTS * number // self._primaries
            end = SLOTS * (number + 1) // self._primaries
            node.cli("CLUSTER", "ADDSLOTSRANGE", begin, end - 1)

    def settled(self) -> bool:
        """Whether every running node says that the cluster is well, and every replica follows."""
        return all(
            state(node)["cluster_state"] == "ok"
            and int(state(node)["cluster_slots_assigned"]) == SLOTS
            and (node.role() == "master" or node.follows())
            for node in self.running()
        )

    def running(self) -> list[Redis]:
        return [node for node in self.nodes if node.process is not None]

    def owner_of(self, key: str) -> Redis:
        """The node that serves a key now, as all running nodes see it."""
        slot = self.slot_of(key)
        ports = {_owner(node, slot) for node in self.running()}
        assert len(ports) == 1, f"the nodes do not agree who serves slot {slot}: {ports}"
        return next(node for node in self.nodes if node.port in ports)

    def slot_of(self, key: str) -> int:
        return int(self.running()[0].cli("CLUSTER", "KEYSLOT", key))

    def fail_over(self, key: str) -> Redis:
        """Kill the node that serves a key and return the one that takes its place.

        Its replica has all that was written until then; the kill is not meant to lose anything.
        """
        old = self.owner_of(key)
        written = int(old.info("replication")["master_repl_offset"])
        until(lambda: _behind(old, written) == [], "the replica to have all")
        old.kill()
        slot = self.slot_of(key)
        until(
            lambda: all(_owner(node, slot) != old.port for node in self.running()),
            "a replica to take over the slot",
        )
        until(self.settled, "the cluster to serve again")
        return self.owner_of(key)

    def move(self, key: str, to: Redis) -> None:
        """Move the slot of a key, with all its keys, to another primary."""
        slot, source = self.slot_of(key), self.owner_of(key)
        to.cli("CLUSTER", "SETSLOT", slot, "IMPORTING", node_id(source))
        source.cli("CLUSTER", "SETSLOT", slot, "MIGRATING", node_id(to))
        while keys := source.cli("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.cli("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, *_auth(to), "KEYS", *keys)
        for node in (to, source, *self.running()):  # the new owner first: it must not be left out
            if node.role() == "master":
                node.cli("CLUSTER", "SETSLOT", slot, "NODE", node_id(to))
        until(
            lambda: all(_owner(node, slot) == to.port for node in self.running()),
            "all nodes to know the new owner of the slot",
        )

    def primaries(self) -> list[Redis]:
        return [node for node in self.running() if node.role() == "master"]


def node_id(node: Redis) -> str:
    return str(node.cli("CLUSTER", "MYID"))


def state(node: Redis) -> dict[str, str]:
    """What a node says about the cluster."""
    rows = str(node.cli("CLUSTER", "INFO")).splitlines()
    return dict(row.split(":", 1) for row in rows if row)


def known(node: Redis) -> list[str]:
    """The nodes that a node has met, itself included."""
    rows = str(node.cli("CLUSTER", "NODES")).splitlines()
    return [row for row in rows if "handshake" not in row]


def _owner(node: Redis, slot: int) -> int | None:
    ranges: list[Any] = node.cli("CLUSTER", "SLOTS")
    return next((int(own[1]) for low, high, own, *_ in ranges if low <= slot <= high), None)


def _behind(node: Redis, written: int) -> list[str]:
    """The replicas of a node that have not said that they have so much."""
    told = [value for key, value in node.info("replication").items() if key.startswith("slave")]
    replicas = [
        dict(part.split("=") for part in one.split(",")) for one in told if "offset=" in one
    ]
    behind = [one["port"] for one in replicas if int(one["offset"]) < written]
    return behind if replicas else ["there is none"]


def _auth(node: Redis) -> list[str]:
    return [] if node.password is None else ["AUTH", node.password]
