"""The servers of a play, by the kind of its engine: how clients reach them, and their state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..engine import Address, Engine
from ..engines import find
from ..errors import Misconfigured
from ..sim.network import Host
from ..sim.store import StoreBackend
from ..sim.world import WALL_S, SimWorld
from .recorder import ObservedNetwork

if TYPE_CHECKING:
    from ..sim.model_redis import LockSnapshot
    from ..sim.votes import Votes

REQUEST_TIMEOUT_S = 3.0  # for clients of the store and of the service
ROUND = 6
PORT, ZOOKEEPER_PORT = 6379, 2181
GUID = 32  # characters at the beginning of a znode's name, which identify the owner

Options: TypeAlias = Mapping[str, Any]
"""The options of an engine that a document sets."""


class Servers(ABC):
    """The servers of one kind of engine, and their state as an observer sees it."""

    def __init__(self, network: ObservedNetwork) -> None:
        self.network = network
        self.hosts: list[Any] = []
        self.who: dict[str, str] = {}
        """The actor of each owner, by the name under which the servers know the owner."""
        self.on_revoked: Callable[[str], object] = str
        """Called with the actor whose lease was revoked, when that is seen in a server."""
        self._revoked: set[str] = set()

    @abstractmethod
    def engine(self, world: SimWorld, host: Host) -> Engine:
        """Create an engine of the package, with default options except those of the document."""

    def introduce(self, owner: str, actor: str) -> None:
        """Register the actor of an owner."""
        self.who[owner] = actor

    def votes(self, world: SimWorld, engine: Engine) -> Votes | None:
        """Return an observer of an engine's votes; None if its servers do not vote."""
        return None

    @abstractmethod
    def kept(self, number: int) -> tuple[str, float | None, list[str]]:
        """Return the owner for whom one server keeps the lock, until when, and its queue."""

    def keepers(self) -> list[str]:
        """Return the names of the servers that keep the lock, of which a majority decides."""
        return [host.name for host in self.hosts]

    @abstractmethod
    def revoked(self, number: int) -> Collection[str]:
        """Return the owners whose lease was revoked, as one server has them."""

    def state(self, number: int) -> dict[str, Any]:
        """Return the state of one server, with the names of actors."""
        host = self.hosts[number]
        owner, until, queue = self.kept(number)
        for one in self.revoked(number):
            if one not in self._revoked and one in self.who:
                self._revoked.add(one)
                self.on_revoked(self.who[one])
        return {
            "holder": self.who.get(owner, "somebody") if owner else None,
            "until": None if until is None or not owner else round(until, ROUND),
            "queue": [self.who.get(one, "somebody") for one in queue],
            "clock": round(self.clock(number), ROUND) + 0.0,  # turns -0.0 into 0.0
            "up": not host.is_down,
            "frozen": host.is_paused,
        }

    def clock(self, number: int) -> float:
        """Return by how many seconds the clock of a server is ahead of the true time."""
        ahead: float = self.hosts[number].ahead
        return ahead


class StoreServers(Servers):
    """The linearizable store."""

    def __init__(
        self, network: ObservedNetwork, names: tuple[str, ...], lock: str, options: Options
    ) -> None:
        super().__init__(network)
        self._backend = StoreBackend(network, REQUEST_TIMEOUT_S, "lock", lock or "none")
        self.hosts = self._backend.hosts

    def engine(self, world: SimWorld, host: Host) -> Engine:
        return self._backend.engine(world, host)

    def kept(self, number: int) -> tuple[str, float | None, list[str]]:
        backend = self._backend
        (owner,) = backend.owners()
        return owner, backend.kept_until() if owner else None, list(backend.queue())

    def revoked(self, number: int) -> Collection[str]:
        return self._backend.revoked()


class ServiceServers(Servers):
    """The store, and the nodes of the lock service in front of it, which clients connect to."""

    def __init__(
        self, network: ObservedNetwork, names: tuple[str, ...], lock: str, options: Options
    ) -> None:
        from ..sim.service import PORT, SteadyBackend
        from .message_text_service import describe

        super().__init__(network)
        network.describer = lambda source, target: describe
        self._backend = SteadyBackend(network, REQUEST_TIMEOUT_S, "lock", lock or "none")
        self._addresses = tuple((node, PORT) for node in self._backend.names)
        self._first: dict[str, int] = {}
        """The index of the node to which each process connects first: they take turns."""
        self.hosts = self._backend.hosts

    def keepers(self) -> list[str]:
        return [self.hosts[0].name]

    def introduce(self, owner: str, actor: str) -> None:
        self.who[self._backend.owner(owner)] = actor

    def engine(self, world: SimWorld, host: Host) -> Engine:
        self._backend.reach(world, host)
        first = self._first.setdefault(world.name, len(self._first) % len(self._addresses))
        nodes = self._addresses[first:] + self._addresses[:first]
        # A token, or else it would be read from the environment; these nodes require none.
        return find("http")(world, Address("http", nodes, options={"token": "none"}))

    def kept(self, number: int) -> tuple[str, float | None, list[str]]:
        if number:
            return "", None, []
        backend = self._backend
        (owner,) = backend.owners()
        return owner, backend.kept_until() if owner else None, list(backend.queue())

    def revoked(self, number: int) -> Collection[str]:
        return () if number else self._backend.revoked()

    def state(self, number: int) -> dict[str, Any]:
        state = super().state(number)
        return state | {"calls": self.hosts[number].waiting()} if number else state


class ZooKeeperServers(Servers):
    """The members of a ZooKeeper ensemble that begins with a leader."""

    def __init__(
        self, network: ObservedNetwork, names: tuple[str, ...], lock: str, options: Options
    ) -> None:
        from ..sim.zookeeper import ZooKeeperBackend
        from ..sim.zookeeper_member import Member, begin_together
        from .message_text_zookeeper import MessageDescriber

        super().__init__(network)
        self._names: dict[str, str] = {}
        """The actor of each znode, by the first characters of its name."""
        network.describer = MessageDescriber(self._names).describer
        self.hosts = [Member(network, n, 0.0, 1.0, name) for n, name in enumerate(names)]
        for member in self.hosts:
            member.on_role = partial(network.recorder.look, member.name)
        begin_together(self.hosts)
        self._backend = ZooKeeperBackend(network, 0.0, "lock", lock or "none", self.hosts)
        self._options = options
        self._sessions: dict[int, str] = {}
        """The actor of each session that has contended for the lock, until it ends."""

    def introduce(self, owner: str, actor: str) -> None:
        known = self._backend.owner(owner)
        self.who[known] = self._names[known[:GUID]] = actor

    def engine(self, world: SimWorld, host: Host) -> Engine:
        self._backend.reach(world, host)
        members = tuple((member.name, ZOOKEEPER_PORT) for member in self.hosts)
        return find("zookeeper")(world, Address("zookeeper", members, options=self._options))

    def kept(self, number: int) -> tuple[str, float | None, list[str]]:
        member = self.hosts[number]
        contenders = self._backend.contenders(member)
        for owner, session in contenders:
            self._sessions.setdefault(session, self.who.get(owner, "somebody"))
        if not contenders:
            return "", None, []
        (owner, session), *queue = contenders
        return owner, member.session_end(session), [one for one, _ in queue]

    def revoked(self, number: int) -> Collection[str]:
        return self._backend.revoked_at(self.hosts[number])

    def clock(self, number: int) -> float:
        return _clock(self.hosts[number], self.network)

    def state(self, number: int) -> dict[str, Any]:
        member, state = self.hosts[number], super().state(number)
        for session in [*self._sessions] if member.role == "leading" else ():
            if session not in member.tree.sessions:
                words = f"the session of {self._sessions.pop(session)} has ended"
                self.network.recorder.tell(member.name, "session ended", words)
        if member.role != "leading":
            del state["until"]  # only the leader knows when a session ends
        return state | {"leader": member.leader or None, "role": member.role}


class RedisServers(Servers):
    """One Redis server, or several under Redlock."""

    def __init__(
        self, network: ObservedNetwork, names: tuple[str, ...], lock: str, options: Options
    ) -> None:
        from ..sim.edge import install
        from ..sim.model_redis import LockSnapshot
        from ..sim.nodes import Node

        install()
        super().__init__(network)
        self._kind = "redis" if len(names) == 1 else "redlock"
        self.hosts = [Node(network, name, 0.0, 1.0) for name in names]
        self._snapshots: list[LockSnapshot] = [LockSnapshot() for _ in names]
        key = lock.encode()
        beside = b"{%b}:fencelock:" % key
        self._observed_keys = (key, beside + b"queue", beside + b"revoked")

    def engine(self, world: SimWorld, host: Host) -> Engine:
        self.give_edge(world, host)
        hosts = tuple((node.name, PORT) for node in self.hosts)
        return find(self._kind)(world, Address(self._kind, hosts))

    def votes(self, world: SimWorld, engine: Engine) -> Votes | None:
        from ..sim.votes import Votes

        return Votes(world.edge, engine) if self._kind == "redlock" else None

    def give_edge(self, world: SimWorld, host: Host) -> None:
        """Connect a process to the network of the play."""
        from ..sim.edge_fanout import Edge

        world.edge = Edge(self.network, host, {node.name: node for node in self.hosts})

    def kept(self, number: int) -> tuple[str, float | None, list[str]]:
        node, snapshot = self.hosts[number], self._snapshots[number]
        node.model.update_snapshot(*self._observed_keys, snapshot)
        left_s = (snapshot.until_us - node.wall_us()) / 1e6
        if not snapshot.owner or left_s <= 0:
            return "", None, list(snapshot.queue)
        until = None if math.isinf(left_s) else self.network.simulation.now + left_s
        return snapshot.owner, until, list(snapshot.queue)

    def revoked(self, number: int) -> Collection[str]:
        return self._snapshots[number].revoked

    def clock(self, number: int) -> float:
        return _clock(self.hosts[number], self.network)


def _clock(host: Any, network: ObservedNetwork) -> float:
    wall_s: float = host.wall_us() / 1e6
    return wall_s - WALL_S - network.simulation.now


KINDS: Mapping[str, Callable[[ObservedNetwork, tuple[str, ...], str, Options], Servers]] = {
    "store": StoreServers,
    "redis": RedisServers,
    "redlock": RedisServers,
    "zookeeper": ZooKeeperServers,
    "service": ServiceServers,
}


def start(
    kind: str, network: ObservedNetwork, names: tuple[str, ...], lock: str, options: Options
) -> Servers:
    """Start the servers of a kind; raise Misconfigured if a package that they need is missing."""
    try:
        return KINDS[kind](network, names, lock, options)
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f'a simulated {kind} needs the package {error.name}: pip install "fencelock[lab]"'
        ) from None
