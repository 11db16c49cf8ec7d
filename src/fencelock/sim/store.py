"""The linearizable store: the memory engine's, in a process of its own, reached by datagrams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from ..engine import Address, Engine
from ..engines.memory import MemoryEngine, Store
from ..engines.units import Record
from ..errors import OutcomeUnknown
from ..model import Busy, Gone, Grant, Request, State, granted, units_of
from ..world import Signal
from ..worlds.threads import drive
from .backends import Backend, Held
from .network import Host
from .tasks import Flag
from .world import SimWorld

R = TypeVar("R")


def record_of(store: Store, lock: str) -> Record | None:
    """Return the store's record of the lock's holder, or None."""
    name = store.names.get(("lock", lock))
    return None if name is None else next(iter(name.records.values()), None)


def queue_of(store: Store, kind: str, lock: str) -> list[str]:
    """Return the owners in the store's queue."""
    name = store.names.get((kind, lock))
    return [] if name is None else list(name.queue)


class StoreNode(Host):
    """The process that runs the store."""

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
    """A client of the store: it sends each call as a datagram, and gives up if no answer comes."""

    schemes = ("remote",)
    traits = MemoryEngine.traits

    def __init__(self, backend: StoreBackend, world: SimWorld, host: Host) -> None:
        super().__init__(world, Address("remote"))
        self._backend = backend
        self._sim_world = world
        self._host = host
        self._pushes: dict[Signal, _Push] = {}

    async def open(self) -> None:
        """Do nothing: there is no connection to open."""

    async def close(self) -> None:
        """Do nothing: there is no connection to close."""

    async def acquire(self, request: Request) -> Grant | Busy:
        asked_at = self.world.now()
        answer = await self._call("acquire", lambda engine: engine.acquire(request))
        return answer if isinstance(answer, Busy) else self._stamp(answer, asked_at)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        asked_at = self.world.now()
        answers = await self._call("renew", lambda engine: engine.renew(grants))
        return [a if isinstance(a, Gone) else self._stamp(a, asked_at) for a in answers]

    async def release(self, grant: Grant) -> bool:
        return await self._call("release", lambda engine: engine.release(grant))

    async def withdraw(self, request: Request) -> None:
        await self._call("withdraw", lambda engine: engine.withdraw(request))

    async def inspect(self, name: str) -> State:
        return await self._call("inspect", lambda engine: engine.inspect(name))

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._call("revoke", lambda engine: engine.revoke(name, reason))

    async def watch(self, request: Request, signal: Signal) -> None:
        push = _Push(self._backend, self._host, signal)
        await self._call("watch", lambda engine: engine.watch(request, push))

    async def unwatch(self, request: Request) -> None:
        await self._call("unwatch", lambda engine: engine.unwatch(request))

    async def announce(self, name: str) -> None:
        await self._call("announce", lambda engine: engine.announce(name))

    async def observe(self, name: str, signal: Signal) -> None:
        push = self._pushes[signal] = _Push(self._backend, self._host, signal)
        await self._call("observe", lambda engine: engine.observe(name, push))

    async def unobserve(self, name: str, signal: Signal) -> None:
        push = self._pushes.pop(signal)

        async def unobserve(engine: MemoryEngine) -> None:
            if (name, push) in engine.store.observers:  # the request may arrive twice
                await engine.unobserve(name, push)

        await self._call("unobserve", unobserve)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._call("remember", lambda engine: engine.remember(name, item, number, keep))

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._call("recall", lambda engine: engine.recall(name))

    async def forget(self, name: str) -> None:
        await self._call("forget", lambda engine: engine.forget(name))

    def _stamp(self, answer: Grant, asked_at: float) -> Grant:
        name, owner, fence, ttl, _, _, share = answer
        return granted(name, owner, fence, ttl, asked_at, share)

    async def _call(self, what: str, ask: Callable[[MemoryEngine], Coroutine[Any, Any, R]]) -> R:
        network, node = self._backend.network, self._backend.node
        answers, answered = list[R](), Flag()

        def arrive() -> None:
            answer = node.serve(ask(node.engine))
            network.datagram(node, self._host, lambda: take(answer), f"{what}: answer")

        def take(answer: R) -> None:
            answers.append(answer)
            answered.set()

        await self._sim_world.simulation.turn()  # a cancellation may come before it is sent
        network.datagram(self._host, node, arrive, what)
        await self.world.wait(answered, self.world.now() + self._backend.request_timeout)
        if not answers:
            raise OutcomeUnknown("no answer")
        return answers[0]


class _Push:
    """A signal that the store sets: a datagram brings it to the waiter later, or not at all."""

    def __init__(self, backend: StoreBackend, host: Host, signal: Signal) -> None:
        self._backend = backend
        self._host = host
        self._signal = signal

    def set(self) -> None:
        self._backend.network.datagram(self._backend.node, self._host, self._signal.set, "woken")

    def clear(self) -> None:
        self._signal.clear()

    def is_set(self) -> bool:
        return self._signal.is_set()
