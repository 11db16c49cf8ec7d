"""The context of a check: its clients, its own names, its background work, and bounded waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar, cast

from ... import aio, sync
from ..._client.client import Core
from ...engine import Address, Engine
from ...errors import LeaseLost, Unavailable
from ...model import Busy, Grant, Request
from ...recipes import several_aio, several_sync
from ...world import Job, Signal, World, sleep
from ...worlds.aio import AioWorld
from ...worlds.threads import ThreadsWorld
from ..faulty import Faults, FaultyEngine
from .check import Broken, Check, Flavor, expect, give_back

T = TypeVar("T")

TIMEOUT_S = 20.0  # how long a check waits for something that must happen
LONG_S = 30.0  # a ttl that does not end within a check, however busy the machine is
BRIEF_S = 0.25  # a ttl whose end a check waits for
SLOW_S = 4.0  # the same, at the most, where the machine is too slow for that
CLOSE_S = 10.0


class Running(Generic[T]):
    """Background work of a check, in a thread or a task."""

    def __init__(
        self,
        world: World,
        timeout: float,
        work: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
    ) -> None:
        self._world = world
        self._timeout = timeout
        self._answer: list[T] = []
        self._who: Any = None
        self.error: BaseException | None = None
        self._job: Job = world.spawn(self._run(work, args), "conformance")

    async def _run(self, work: Callable[..., Awaitable[T]], args: tuple[object, ...]) -> None:
        self._who = self._world.who()
        try:
            self._answer.append(await work(*args))
        except BaseException as error:
            self.error = error

    def started(self) -> bool:
        return self._who is not None

    def done(self) -> bool:
        return bool(self._answer) or self.error is not None

    def cancel(self) -> None:
        """Cancel the task; a thread cannot be cancelled."""
        self._who.cancel()

    async def give_back(self) -> bool:
        """Release the lease that it got, if any; return False while it is still running."""
        for answer in self._answer:
            await give_back(answer)
        return self.done()

    async def end(self, within: float | None = None) -> None:
        """Wait until it has ended, whether it returned or raised."""
        limit = self._timeout if within is None else within
        ended = await self._job.join(self._world.now() + limit)
        expect(ended, f"it must end, and did not within {limit:g} s")

    async def result(self, within: float | None = None) -> T:
        """Wait for what it returns; raise what it raised."""
        await self.end(within)
        if self.error is not None:
            raise self.error
        return self._answer[0]


class CheckContext:
    """The context of one check, in one flavor, for one address."""

    def __init__(
        self, flavor: Flavor, engine: type[Engine], address: Address, timeout: float = TIMEOUT_S
    ) -> None:
        self.flavor = flavor
        self.timeout = timeout
        """Seconds to wait for something that must happen."""
        self.world = self._new_world()
        self.record = Record()
        self._bare = engine
        self._engine = recorded(engine, self.record)
        self._address = address
        self._mark = self.world.owner()[:8]
        self._clients: list[aio.Client] = []
        self._others: list[Running[Any]] = []

    def _new_world(self) -> World:
        return AioWorld() if self.flavor == "asyncio" else ThreadsWorld()

    async def connect(self, faults: Faults | None = None) -> aio.Client:
        """Open a client of the engine, with faults in between if given; closed after the check."""
        world = self._new_world()
        make: Callable[[], Engine] = partial(self._engine, world, self._address)
        if faults is not None:
            make = partial(_faulty, make, faults)
        if self.flavor == "asyncio":
            client = aio.Client(Core(world, make, aio.Lease))
        else:
            client = async_adapter(sync.Client(Core(world, make, sync.Lease)))
        self._clients.append(client)
        await core_of(client).open()
        return client

    async def why_not(self, check: Check) -> str:
        """Return why a check does not apply here, or an empty string if it does."""
        if self.flavor not in check.flavors:
            return f"it is about {', '.join(check.flavors)} only"
        if not check.needs:
            return ""
        client = await self.connect()
        traits = client.traits
        for need in check.needs:
            if need == "claims":
                if engine_of(client).first_holds:
                    return "the first in its queue holds without asking again"
                continue
            if need == "store":
                if engine_of(client).is_service:
                    return "a service does not tell who claimed a grant"
                continue
            optional = need in ("revoke", "scan", "observe")
            if optional and getattr(self._bare, need) is getattr(Engine, need):
                return f"the engine does not offer {need}()"
            if not getattr(traits, need, optional):
                return f"the engine does not promise {need}"
        return ""

    def name(self, word: str = "lock") -> str:
        """Return a name that no other check uses; the same word gives the same name."""
        return f"{self._mark}:{word}"

    def request(self, name: str, ttl: float = LONG_S) -> Request:
        """Return a request to hold a name, as the core would send it to the engine."""
        return Request(name, self.world.owner(), ttl)

    async def brief_lease(
        self, client: aio.Client, on_lost: Callable[[LeaseLost], object] | None = None
    ) -> aio.Lease:
        """Acquire a lease that ends soon; with a longer ttl if a busy machine is too slow for that.

        A grant that comes after its ttl is given back, which breaks no promise.
        """
        ttl = BRIEF_S
        while True:
            try:
                lock = client.lock(self.name(), ttl=ttl, renew=False, on_lost=on_lost)
                lease = await lock.acquire()
            except Unavailable:
                if ttl >= SLOW_S:
                    raise
            else:
                if lease.remaining() > ttl / 2 or on_lost is not None or ttl >= SLOW_S:
                    return lease
                await lease.release()
            ttl *= 4

    async def enqueue(self, client: aio.Client, request: Request) -> tuple[Signal, Grant | Busy]:
        """Join the queue as a waiter does: watch, then acquire."""
        signal = core_of(client).world.signal()
        await engine_of(client).watch(request, signal)
        return signal, await engine_of(client).acquire(request._replace(queue=True))

    def start(self, work: Callable[..., Awaitable[T]], *args: object) -> Running[T]:
        """Run work beside the check, in a thread or a task of its own."""
        running = Running(self.world, self.timeout, work, args)
        self._others.append(running)
        return running

    async def breathe(self, seconds: float = 0.001) -> None:
        """Let others run."""
        await sleep(self.world, seconds)

    async def until(self, condition: Callable[[], Awaitable[object]], what: str) -> None:
        """Wait until a condition holds; raise Broken if it does not in time."""
        deadline = self.world.now() + self.timeout
        while not await condition():
            if self.world.now() >= deadline:
                raise Broken(f"{what}: not within {self.timeout:g} s")
            await self.breathe(0.002)

    async def until_waiting(self, name: str, count: int = 1) -> None:
        """Wait until the engine has told so many owners to wait for a name."""

        async def waiting() -> bool:
            return self.record.waiting(name) >= count

        await self.until(waiting, f"{count} waiter(s) must ask for {name!r}")

    async def until_lost(self, lease: aio.Lease) -> None:
        """Wait until the holder is told of its loss."""
        expect(await lease.lost.wait(self.timeout), f"the holder of {lease!r} was not told in time")

    def make_due(self, client: aio.Client) -> None:
        """Let the keeper renew all leases of a client at once.

        So a check need not wait for a third of a ttl, nor use one that a busy machine outlasts.
        """
        keeper = core_of(client).keeper
        for hold in keeper.held():
            hold.attend_at = hold.grant.asked_at
        keeper.wake()

    def crash(self, client: aio.Client) -> None:
        """Stop the renewals of a client without a release, as when its process is killed."""
        core_of(client).keeper.stop()

    async def close(self) -> list[BaseException]:
        """Close all clients, whatever they are doing, and leave no lease behind.

        Return what went wrong: an error on closing is raised only if the check itself has passed.
        """
        left, self._others = self._others, []
        closing = [self.start(client.close) for client in self._clients]
        give_up = self.world.now() + CLOSE_S
        while left and self.world.now() < give_up:  # work that still waited may get a lease now
            left = [other for other in left if not await other.give_back()]
            await self.breathe()
        for job in closing:
            await self._end(job)
        return [job.error for job in closing if job.error is not None]

    async def _end(self, job: Running[None]) -> None:
        try:
            await job.end(CLOSE_S)
        except Broken as error:
            job.error = error


def _faulty(make: Callable[[], Engine], faults: Faults) -> Engine:
    return FaultyEngine(make(), faults)


def core_of(client: aio.Client) -> Core[Any]:
    """Return the core of a client."""
    return client._core  # pyright: ignore[reportPrivateUsage]


def engine_of(client: aio.Client) -> Engine:
    """Return the engine of a client, for checks of the contract itself."""
    return core_of(client).engine


def owner_of(lease: aio.Lease) -> str:
    """Return the owner id of a lease, which only its holder may see."""
    return lease._hold.grant.owner  # pyright: ignore[reportPrivateUsage]


def grant_of(answer: Grant | Busy) -> Grant:
    """Return the answer as a grant; raise Broken if it is not one."""
    if isinstance(answer, Grant):
        return answer
    raise Broken(f"the engine must grant this, and says {answer!r}")


def busy_of(answer: Grant | Busy) -> Busy:
    """Return the answer as a refusal; raise Broken if it is a grant."""
    if isinstance(answer, Busy):
        return answer
    raise Broken(f"the engine must not grant this yet, and says {answer!r}")


R = TypeVar("R")

VERBS = ("renew", "release", "withdraw", "inspect", "watch", "revoke", "scan")


class Record:
    """The calls that the engines of one check got, and the owners that were told to wait.

    A check has to know when a waiter is queued and whether a bad call reached the engine. No engine
    can tell that, so its class is extended by a record of its own calls.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.waiters: dict[str, dict[str, None]] = {}
        """For each name the owners that were told to wait, in the order in which they came."""
        self.look_in: float | None = None
        """If set, waiters are told to retry only after so many seconds: only a push is earlier."""

    def waiting(self, name: str) -> int:
        """Return how many owners have been told to wait for a name so far."""
        return len(self.waiters.get(name, ()))

    def note(self, request: Request, answer: Grant | Busy) -> Grant | Busy:
        if isinstance(answer, Grant):
            return answer
        if request.queue or answer.queued:  # some engines queue a waiter with its first request
            self.waiters.setdefault(request.name, {})[request.owner] = None
        return answer if self.look_in is None else answer._replace(look_in=self.look_in)


def recorded(engine: type[Engine], record: Record) -> type[Engine]:
    """Return a subclass of an engine that records its calls."""

    async def acquire(self: Engine, request: Request) -> Grant | Busy:
        record.calls += 1
        return record.note(request, await engine.acquire(self, request))

    verbs = {verb: _counted(getattr(engine, verb), record) for verb in VERBS}
    return type(engine.__name__, (engine,), {"acquire": acquire, **verbs})


def _counted(
    verb: Callable[..., Coroutine[Any, Any, R]], record: Record
) -> Callable[..., Coroutine[Any, Any, R]]:
    @wraps(verb)
    async def call(self: Engine, *arguments: Any) -> R:
        record.calls += 1
        return await verb(self, *arguments)

    return call


_TWINS: dict[type[object], type[object]] = {
    sync.Client: aio.Client,
    sync.Lock: aio.Lock,
    sync.RWLock: aio.RWLock,
    sync.Lease: aio.Lease,
    sync.Lost: aio.Lost,
    several_sync.Locks: several_aio.Locks,
    several_sync.Leases: several_aio.Leases,
    several_sync.AnyLost: several_aio.AnyLost,
    sync.Election: aio.Election,
    sync.Once: aio.Once,
    sync.Barrier: aio.Barrier,
    sync.Latch: aio.Latch,
}


def async_adapter(client: sync.Client) -> aio.Client:
    """Give a blocking client the methods of an asyncio one, so that one check serves both flavors.

    The methods that are awaited in ``fencelock.aio`` can be awaited here; the blocking call is made
    in the calling thread, before the coroutine ends. Nothing suspends, so ``drive()`` runs it.
    """
    return cast(aio.Client, _AsyncAdapter(client))


class _AsyncAdapter:
    """Wraps a sync Client, Lock, Lease, Lost or recipe. Wrappers of the same object are equal."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._wrapped, name)
        if name.startswith("_") or not callable(value):
            return _wrap(value)

        def call(*args: Any, **kwargs: Any) -> Any:
            return _wrap(value(*args, **kwargs))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return _wrap(value(*args, **kwargs))

        twin = _TWINS[type(self._wrapped)]
        return wait if iscoroutinefunction(getattr(twin, name)) else call

    async def __aenter__(self) -> Any:
        return _wrap(self._wrapped.__enter__())

    async def __aexit__(self, *error: Any) -> None:
        self._wrapped.__exit__(*error)

    def __bool__(self) -> bool:
        return bool(self._wrapped)

    def __getitem__(self, key: Any) -> Any:
        return _wrap(self._wrapped[key])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AsyncAdapter) and self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return hash(self._wrapped)

    def __repr__(self) -> str:
        return repr(self._wrapped)


def _wrap(value: Any) -> Any:
    return _AsyncAdapter(value) if type(value) in _TWINS else value
