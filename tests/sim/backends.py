"""The simulated backend of a run: a linearizable store, one Redis, or several under Redlock.

The engines are the package's own, unchanged; only what they reach is simulated. The store is that
of the memory engine, in a process of its own behind datagrams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fencelock.engine import Address, Engine
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.keys import holders_of
from fencelock.engines.redlock.engine import RedlockEngine
from fencelock.errors import OutcomeUnknown
from fencelock.model import Busy, Gone, Grant, Request, State, granted, units_of
from fencelock.sim.tasks import Flag
from fencelock.sim.world import SimWorld
from fencelock.world import Signal
from fencelock.worlds.threads import drive
from tests.sim.edge import install
from tests.sim.edge_fanout import Edge
from tests.sim.judge import queue_of, record_of
from tests.sim.model_redis import ModelRedis, Sight
from tests.sim.network import Host, Network
from tests.sim.nodes import Node
from tests.sim.plan import NAME

R = TypeVar("R")

install()


class Held(NamedTuple):
    """What a server keeps for one of several holders of a name."""

    units: int
    slot: int | None
    until: float
    """Until when, in the time of the simulation, unless that is changed."""


class Backend(ABC):
    """The servers of one run, and the engines that reach them."""

    fifo = True
    is_tiered = False
    """Whether its servers reach each other, and can be cut off from each other."""
    looks_within = 1.0
    """How soon a waiter finds a lock that came free without a word."""

    def __init__(
        self,
        network: Network,
        request_timeout: float,
        kind: str = "lock",
        name: str = NAME,
        hosts: list[Any] | None = None,
    ) -> None:
        self.network = network
        self.request_timeout = request_timeout
        """How long a client waits for an answer."""
        self.kind = kind
        """What is looked at: a lock, a semaphore or a rwlock."""
        self.name = name
        self.hosts: list[Any] = self._hosts() if hosts is None else hosts
        """What can be frozen, restarted and cut off."""

    @abstractmethod
    def _hosts(self) -> list[Any]:
        """Start the servers."""

    def besides(self, name: str) -> Backend:
        """The same servers, for whoever looks at another name."""
        return type(self)(self.network, self.request_timeout, self.kind, name, self.hosts)

    @abstractmethod
    def engine(self, world: SimWorld, host: Host) -> Engine:
        """A new engine for a client."""

    @abstractmethod
    def owners(self) -> list[str]:
        """For whom each server keeps the lock at this moment, or nothing."""

    def holder(self) -> str:
        """The owner that a majority of the servers keeps the lock for, or nothing."""
        (owner,) = self.owners()
        return owner

    def holders(self) -> dict[str, Held]:
        """For whom a name of several holders is kept at this moment, notified or claimed."""
        return {}

    def kept_until(self) -> float:
        """Until when the lock is kept for its holder, unless that is changed; 0 if that cannot be
        told."""
        return 0.0

    @abstractmethod
    def queue(self) -> Sequence[str]:
        """The owners in the queue."""

    @abstractmethod
    def revoked(self) -> Collection[str]:
        """Owners from whom somebody took the lock away."""

    def owner(self, owner: str) -> str:
        """By what the servers know an owner of a client."""
        return owner

    def watch(self, changed: Callable[[], object]) -> None:
        """Have this called whenever a server has served something that may have changed what it
        keeps."""
        for host in self.hosts:
            host.watchers.append(changed)


class RedisBackend(Backend):
    """One server."""

    nodes = 1

    def __init__(
        self,
        network: Network,
        request_timeout: float,
        kind: str = "lock",
        name: str = NAME,
        hosts: list[Any] | None = None,
    ) -> None:
        super().__init__(network, request_timeout, kind, name, hosts)
        self._sights = None if hosts is None else [Sight() for _ in hosts]
        self._seen = [""] * self.nodes
        """Whom each server had a record of when somebody looked last."""
        self._revoked: dict[str, None] = {}
        key, self._shares = name.encode(), holders_of(name, kind).encode()
        beside = b"{%b}:fencelock:" % key
        self._looks_at = (key, beside + b"queue", beside + b"revoked")
        if kind != "lock":
            self._looks_at = (b"", self._shares + b":queue", self._shares + b":revoked")

    def _hosts(self) -> list[Any]:
        random, hosts = self.network.simulation.random, list[Any]()
        for number in range(self.nodes):
            ahead, pace = random() * 2.0, 1 + (random() - 0.5) * 0.006
            hosts.append(Node(self.network, f"node-{number}", ahead, pace))
        return hosts

    def _sight(self, place: int) -> Sight:
        sight: Sight = self._sights[place] if self._sights else self.hosts[place].model.sight
        return sight

    def engine(self, world: SimWorld, host: Host) -> Engine:
        world.edge = Edge(self.network, host, {node.name: node for node in self.hosts})
        return self.make(world, tuple((node.name, 6379) for node in self.hosts))

    def make(self, world: SimWorld, hosts: tuple[tuple[str, int], ...]) -> Engine:
        return RedisEngine(
            world, Address("redis", hosts, options={"request_timeout": self.request_timeout})
        )

    def watch(self, changed: Callable[[], object]) -> None:
        for place, node in enumerate(self.hosts):
            node.watchers.append(partial(self._look, place, node.model, changed))

    def _look(self, place: int, model: ModelRedis, changed: Callable[[], object]) -> None:
        if model.look(*self._looks_at, self._sights[place] if self._sights else None):
            sight = self._sight(place)
            self._seen[place] = sight.owner
            for owner in sight.revoked:
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
            sight = self._sight(place)
            owners.append(sight.owner if sight.owner and node.wall_us() < sight.until_us else "")
        return owners

    def kept_until(self) -> float:
        (node,) = self.hosts
        left_s: float = (self._sight(0).until_us - node.wall_us()) / 1e6
        return self.network.simulation.now + left_s

    def queue(self) -> Sequence[str]:
        return self._sight(0).queue

    def revoked(self) -> Collection[str]:
        return self._revoked.keys()


def _pairs(reply: Sequence[Any]) -> Mapping[str, str]:
    words = [one.decode() for one in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


class RedlockBackend(RedisBackend):
    """Three servers that do not know each other."""

    nodes = 3
    fifo = False
    looks_within = 1.5

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


class StoreNode(Host):
    """The process in which the store lives."""

    def __init__(self, world: SimWorld) -> None:
        super().__init__("store")
        self._world = world
        self.watchers: list[Callable[[], object]] = []
        self.restart(forgets=True)

    def serve(self, work: Coroutine[Any, Any, R]) -> R:
        answer = drive(work)
        for watch in self.watchers:
            watch()
        return answer

    def crash(self) -> None:
        self.is_down = True
        self.is_paused, self.mail = False, []

    def restart(self, forgets: bool) -> None:
        self.is_down = False
        if forgets:
            self.store = Store(self._world)
            self.engine = MemoryEngine(self._world, Address("memory"), self.store)

    @property
    def ahead(self) -> float:
        return self._world.wall_ahead

    @ahead.setter
    def ahead(self, seconds: float) -> None:
        self._world.wall_ahead = seconds


class StoreBackend(Backend):
    """The linearizable store."""

    def _hosts(self) -> list[Any]:
        return [StoreNode(self.network.simulation.world("store", ahead=5e4))]

    @property
    def node(self) -> StoreNode:
        node: StoreNode = self.hosts[0]
        return node

    def engine(self, world: SimWorld, host: Host) -> Engine:
        return Remote(self, world, host)

    def holders(self) -> dict[str, Held]:
        name = self.node.store.names.get((self.kind, self.name))
        now, later = self.node.engine.world.now(), self.network.simulation.now
        return {
            owner: Held(
                units_of(record.share),
                record.share.slot if record.share else None,
                later + record.expires_at - now,
            )
            for owner, record in (name.records if name else {}).items()
            if record.expires_at > now
        }

    def owners(self) -> list[str]:
        if self.kind != "lock":
            return list(self.holders())
        record = record_of(self.node.store, self.name)
        now = self.node.engine.world.now()
        return [record.owner if record is not None and record.expires_at > now else ""]

    def kept_until(self) -> float:
        record, world = record_of(self.node.store, self.name), self.node.engine.world
        return self.network.simulation.now + (record.expires_at - world.now() if record else 0.0)

    def queue(self) -> Sequence[str]:
        return queue_of(self.node.store, self.kind, self.name)

    def revoked(self) -> Collection[str]:
        return list(self.node.store.revoked)


class Remote(Engine):
    """A client of the store: it asks, and gives up when no answer comes."""

    schemes = ("remote",)
    traits = MemoryEngine.traits

    def __init__(self, backend: StoreBackend, world: SimWorld, host: Host) -> None:
        super().__init__(world, Address("remote"))
        self._cast = backend
        self._sim_world = world
        self._host = host
        self._pushes: dict[Signal, _Push] = {}

    async def open(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing to let go of."""

    async def acquire(self, request: Request) -> Grant | Busy:
        asked_at = self.world.now()
        answer = await self._call(lambda engine: engine.acquire(request))
        return answer if isinstance(answer, Busy) else self._stamp(answer, asked_at)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        asked_at = self.world.now()
        answers = await self._call(lambda engine: engine.renew(grants))
        return [a if isinstance(a, Gone) else self._stamp(a, asked_at) for a in answers]

    async def release(self, grant: Grant) -> bool:
        return await self._call(lambda engine: engine.release(grant))

    async def withdraw(self, request: Request) -> None:
        await self._call(lambda engine: engine.withdraw(request))

    async def inspect(self, name: str) -> State:
        return await self._call(lambda engine: engine.inspect(name))

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._call(lambda engine: engine.revoke(name, reason))

    async def watch(self, request: Request, signal: Signal) -> None:
        push = _Push(self._cast, self._host, signal)
        await self._call(lambda engine: engine.watch(request, push))

    async def unwatch(self, request: Request) -> None:
        await self._call(lambda engine: engine.unwatch(request))

    async def announce(self, name: str) -> None:
        await self._call(lambda engine: engine.announce(name))

    async def observe(self, name: str, signal: Signal) -> None:
        push = self._pushes[signal] = _Push(self._cast, self._host, signal)
        await self._call(lambda engine: engine.observe(name, push))

    async def unobserve(self, name: str, signal: Signal) -> None:
        push = self._pushes.pop(signal)

        async def unobserve(engine: MemoryEngine) -> None:
            if (name, push) in engine.store.observers:  # what asks for it may arrive twice
                await engine.unobserve(name, push)

        await self._call(unobserve)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._call(lambda engine: engine.remember(name, item, number, keep))

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._call(lambda engine: engine.recall(name))

    async def forget(self, name: str) -> None:
        await self._call(lambda engine: engine.forget(name))

    def _stamp(self, answer: Grant, asked_at: float) -> Grant:
        name, owner, fence, ttl, _, _, share = answer
        return granted(name, owner, fence, ttl, asked_at, share)

    async def _call(self, ask: Callable[[MemoryEngine], Coroutine[Any, Any, R]]) -> R:
        network, node = self._cast.network, self._cast.node
        answers, answered = list[R](), Flag()

        def arrive() -> None:
            answer = node.serve(ask(node.engine))
            network.datagram(node, self._host, lambda: take(answer))

        def take(answer: R) -> None:
            answers.append(answer)
            answered.set()

        await self._sim_world.simulation.turn()  # a cancellation may come before it is sent
        network.datagram(self._host, node, arrive)
        await self.world.wait(answered, self.world.now() + self._cast.request_timeout)
        if not answers:
            raise OutcomeUnknown("no answer")
        return answers[0]


class _Push:
    """What the store sets: the waiter hears of it a little later, or not at all."""

    def __init__(self, backend: StoreBackend, host: Host, signal: Signal) -> None:
        self._cast = backend
        self._host = host
        self._signal = signal

    def set(self) -> None:
        self._cast.network.datagram(self._cast.node, self._host, self._signal.set)

    def clear(self) -> None:
        self._signal.clear()

    def is_set(self) -> bool:
        return self._signal.is_set()


BACKENDS: dict[str, type[Backend]] = {
    "store": StoreBackend,
    "redis": RedisBackend,
    "redlock": RedlockBackend,
}
SHARED = ("store", "redis")
"""Those over which all recipes are played: Redlock has one holder of a name, and no memory."""
