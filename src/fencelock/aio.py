"""fencelock for asyncio programs: the same names and signatures as ``sync.py``, awaited.

The body of an ``async with`` is cancelled when its lease is lost, and the block raises LeaseLost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, overload

from . import engines
from ._client import cancel_scope
from ._client.client import Core
from ._client.facade import ClientBase, LeaseBase, LockBase, LostBase
from ._client.holder_meta import not_in_time
from ._client.lock_options import (
    DEFAULT_TTL_S,
    READ,
    WRITE,
    HoldOptions,
    LockOptions,
    LockSpec,
    Template,
    check_busy,
    make_lock_spec,
    make_shared_spec,
    semaphore_share,
)
from ._client.validation import check_name, check_prefix, check_reason, check_timeout, check_ttl
from .engine import Address, Engine
from .errors import LeaseLost, UsageError
from .model import Busy, Holding, Meta, Owed, Safety, State, Traits
from .world import snapshot
from .worlds.aio import AioWorld

if TYPE_CHECKING:
    from .recipes.aio import Barrier, Election, Latch, Leases, Locks, Once

__all__ = [
    "Barrier",
    "Client",
    "Election",
    "Latch",
    "Lease",
    "Leases",
    "Lock",
    "Locks",
    "Lost",
    "Once",
    "RWLock",
    "connect",
]

P = ParamSpec("P")
R = TypeVar("R")


def connect(url: str | None = None, **options: object) -> Client:
    """A client of an engine: ``client = await connect(url)`` or ``async with connect(url) as
    client:``.

    It opens itself on first use, so that it can be declared where a module is imported. ``await``,
    ``async with`` and ``open()`` reach the engine at once.

    Without a URL, ``FENCELOCK_URL`` decides, and else a file in the user's state folder. Options of
    the engine are keyword arguments or query parameters of the URL.
    """
    engine, address = engines.resolve(url, options)
    return Client(LoopCores(engine, address))


class LoopCores:
    """The core of each event loop in which a client is used: connections belong to a loop."""

    def __init__(self, engine: type[Engine], address: Address) -> None:
        self.address = address
        self.closed = False
        self._engine = engine
        self._cores: dict[asyncio.AbstractEventLoop, Core[Lease]] = {}

    @property
    def traits(self) -> Traits:
        for core in list(self._cores.values()):
            return core.traits
        return self._engine.traits

    def here(self) -> Core[Lease]:
        """The core for the running loop."""
        try:
            return self._cores[asyncio.get_running_loop()]
        except (KeyError, RuntimeError):
            return self._begin()

    def _begin(self) -> Core[Lease]:
        if self.closed:
            raise UsageError("this client is closed: connect again")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                "a client of fencelock.aio is used inside a running event loop: await this in a "
                "coroutine, or use fencelock.connect"
            ) from None
        for other in [other for other in list(self._cores) if other.is_closed()]:
            _abandon(self._cores.pop(other))
        world = AioWorld()
        core: Core[Lease] = Core(world, partial(self._engine, world, self.address), Lease)
        return self._cores.setdefault(loop, core)

    def open_core(self) -> Core[Lease] | None:
        """The core for the running loop, if there is one."""
        try:
            return self._cores.get(asyncio.get_running_loop())
        except RuntimeError:
            return None

    def owed(self) -> tuple[Owed, ...]:
        return tuple(owed for core in list(self._cores.values()) for owed in core.owed())

    async def close(self) -> None:
        """Close the core of this loop, and have those of other loops closed there."""
        self.closed, here = True, asyncio.get_running_loop()
        for loop, core in snapshot(self._cores):
            if loop is here:
                await core.close()
            elif loop.is_closed():
                _abandon(core)
            else:
                asyncio.run_coroutine_threadsafe(core.close(), loop)


def _abandon(core: Core[Lease]) -> None:
    """Let go of what belongs to a loop that is closed: its transports cannot be told any more."""
    try:
        core.abandon_all()
    except RuntimeError:
        pass


class Client(ClientBase):
    """A client of one engine.

    The tasks of an event loop share its connections; another loop gets connections of its own, and
    so does a forked child.
    """

    def lock(
        self,
        name: str,
        *,
        ttl: float = DEFAULT_TTL_S,
        timeout: float | None = None,
        renew: bool = True,
        max_hold: float | None = None,
        on_lost: Callable[[LeaseLost], object] | None = None,
        reentrant: bool = False,
        safety: Safety | None = None,
        meta: Meta | None = None,
        key: int | None = None,
        min_hold: float | None = None,
        delay: float | None = None,
        group: str | None = None,
    ) -> Lock:
        """Describe a lock; nothing is sent yet.

        ``ttl`` is the length of a lease in seconds, ``timeout`` the longest wait (None: no limit,
        0: try once). ``renew`` keeps the lease while the work lasts, ``max_hold`` ends that.
        ``on_lost`` is called with the LeaseLost when the lease is lost. ``reentrant`` lets the same
        task enter again. ``safety`` refuses an engine that promises less. ``meta`` is shown to
        whoever asks who holds the lock. ``key`` is the number under which other programs know the
        lock, in a store that locks by numbers. ``min_hold`` keeps others out for so long even if it
        is released sooner, ``delay`` for so long after a holder was lost. ``group`` is what metrics
        call it together with others of its kind.
        """
        spec = make_lock_spec(
            name,
            ttl,
            timeout,
            renew,
            max_hold,
            on_lost,
            reentrant,
            safety,
            meta,
            key,
            min_hold,
            delay,
            group,
        )
        self._demand(spec)
        return Lock(self._cores, spec)

    def semaphore(self, name: str, *, limit: int, **options: Unpack[HoldOptions]) -> Lock:
        """Describe a semaphore: at most ``limit`` hold it at a time, in the order they came.

        A lease has a ``slot`` from 0 to limit - 1, and a fence that grows with every grant of that
        slot. The options are those of ``lock``. A lock of the same name is something else.
        """
        spec = make_shared_spec(name, semaphore_share(limit), options)
        self._demand(spec)
        return Lock(self._cores, spec)

    def locks(self, *names: str, **options: Unpack[HoldOptions]) -> Locks:
        """Describe several locks that are held together: all or none.

        They are acquired in one order for everybody, so that two who name them differently do not
        wait for each other. One timeout covers all, and the loss of one is the loss of all. The
        options are those of ``lock``.
        """
        from .recipes.aio import Locks
        from .recipes.several import in_order

        def spec(name: str) -> LockSpec:
            return self.lock(name, **options)._spec  # pyright: ignore[reportPrivateUsage]

        return Locks(self._cores, in_order(names, spec))

    def rwlock(self, name: str, **options: Unpack[HoldOptions]) -> RWLock:
        """Describe a read/write lock: many hold ``.read()`` together, or one ``.write()``.

        They are served in the order they came, so that neither side starves. The options are those
        of ``lock``. A lock of the same name is something else.
        """
        spec = make_shared_spec(name, WRITE, options)
        self._demand(spec)
        return RWLock(Lock(self._cores, spec._replace(share=READ)), Lock(self._cores, spec))

    def election(self, name: str, **options: Unpack[HoldOptions]) -> Election:
        """Describe an election: whoever holds the lock of this name leads.

        The options are those of ``lock``. Every engine can elect.
        """
        from .recipes.aio import Election

        return Election(self.lock(name, **options))

    def once(self, name: str, *, every: float, **options: Unpack[HoldOptions]) -> Once:
        """Describe work that is done once in every window of so many seconds, by one of many.

        Windows are counted on the wall clock of each machine. It is a block and a decorator. The
        options are those of ``lock``; it waits until the window ends at the longest, so that a
        runner that crashed is replaced, and ``timeout=0`` skips at once.
        """
        from .recipes.aio import Once

        return Once(self.lock(name, **options), every)

    def barrier(self, name: str, parties: int, *, ttl: float = DEFAULT_TTL_S) -> Barrier:
        """Describe a barrier: so many parties wait for each other, again and again.

        A party that crashed counts until its ``ttl`` is over.
        """
        from .recipes.aio import Barrier, slots_name

        return Barrier(name, self.semaphore(slots_name(name, parties), limit=parties, ttl=ttl))

    def latch(self, name: str, count: int, *, keep: float = 7 * 86_400.0) -> Latch:
        """Describe a latch: it opens for all who wait once it was counted down so many times.

        What was counted is kept for so many seconds after the last time, here a week.
        """
        from .recipes.aio import Latch

        return Latch(self._cores, name, count, keep)

    @overload
    def locked(
        self, name: str, *, busy: Literal["raise"] = "raise", **options: Unpack[LockOptions]
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]: ...

    @overload
    def locked(
        self, name: str, *, busy: Literal["skip"], **options: Unpack[LockOptions]
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R | None]]]: ...

    def locked(
        self,
        name: str,
        *,
        busy: Literal["raise", "skip"] = "raise",
        **options: Unpack[LockOptions],
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R | None]]]:
        """Decorate a function: each call holds the lock named by the template, filled from its
        arguments. It takes all options of ``lock``.

        ``busy="skip"`` returns None instead of raising if the lock cannot be acquired in time.
        A function with a parameter ``lease`` gets the lease there; callers cannot pass one.
        """
        lock = self.lock("template", **options)
        spec = lock._spec  # pyright: ignore[reportPrivateUsage]
        check_busy(busy)

        def decorate(
            function: Callable[P, Awaitable[R]],
        ) -> Callable[P, Coroutine[Any, Any, R | None]]:
            template = Template(name, function, asynchronous=True)

            async def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
                lock = Lock(self._cores, template.named(spec, args, kwargs))
                skip = busy == "skip"
                lease = await (lock.try_acquire(timeout=spec.timeout) if skip else lock.acquire())
                if lease is None:
                    return None
                async with lease:
                    result = template.awaitable(template.call(lease, args, kwargs))
                    value: R = template.finished(await result)
                    return value

            template.wrap(call)
            return call

        return decorate

    async def holders(self, name: str) -> list[Holding]:
        """Who holds a name now."""
        return list((await self.inspect(name)).holders)

    async def take_over(self, token: str) -> Lease:
        """Go on with a lease that another process gave away by ``hand_over()``.

        It is renewed from now on, with the same fence. LeaseLost says that it is gone meanwhile.
        """
        lease: Lease = await self._core.resume(token)
        return lease

    async def inspect(self, name: str) -> State:
        """Who holds a name now and who waits for it, first come first."""
        return await self._core.inspect(check_name(name))

    async def scan(self, prefix: str = "") -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        return await self._core.scan(check_prefix(prefix))

    async def revoke(self, name: str, reason: str) -> bool:
        """Take a lock from its holder, who is told why; False when nobody held it.

        The next fence is higher.
        """
        return await self._core.revoke(check_name(name), check_reason(reason))

    def _demand(self, spec: LockSpec) -> None:
        """Refuse at once what the engine cannot promise; outside a loop, acquiring does it."""
        core = self._cores.open_core() if isinstance(self._cores, LoopCores) else self._core
        if core is not None:
            core.demand(spec)

    async def open(self) -> None:
        """Reach the engine now, or raise: else the first call does."""
        await self._core.open()

    async def close(self) -> None:
        """Release what is held and let go of the engine. Closing twice does nothing."""
        if not self._cores.closed:
            await self._cores.close()

    def __await__(self) -> Generator[Any, None, Client]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Lock(LockBase["Lease"]):
    """A description of a lock.

    It holds no lease: tasks may share it, and it can be used again and again.
    """

    async def acquire(self, *, timeout: float | Literal["default"] | None = "default") -> Lease:
        """Wait for the lock and return a lease, or raise AcquireTimeout.

        Leave the lease (``async with lease:``) or call its ``release()``. ``timeout`` overrides the
        lock's own.
        """
        wait = self._spec.timeout if timeout == "default" else check_timeout(timeout)
        answer = await self._cores.here().attempt(self._spec, wait)
        if isinstance(answer, Busy):
            raise not_in_time(self.name, wait, answer)
        lease: Lease = answer
        return lease

    async def try_acquire(self, *, timeout: float | None = 0) -> Lease | None:
        """Return a lease, or None if it cannot be acquired in time (by default: at once)."""
        answer = await self._cores.here().attempt(self._spec, check_timeout(timeout))
        return None if isinstance(answer, Busy) else answer

    async def __aenter__(self) -> Lease:
        lease = await self.acquire()
        self._blocks.enter(self._cores.here().world.who(), lease)
        try:
            return await lease.__aenter__()
        except BaseException as error:  # it is over already: nobody will leave this block
            self._blocks.remove(lease)
            await lease.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        lease = self._blocks.last(self._cores.here().world.who())
        self._blocks.remove(lease)
        await lease.__aexit__(kind, error, traceback)


class RWLock:
    """A description of a read/write lock. It holds no lease."""

    def __init__(self, read: Lock, write: Lock) -> None:
        self._read, self._write = read, write

    @property
    def name(self) -> str:
        """What is locked."""
        return self._write.name

    def read(self) -> Lock:
        """The lock that readers share."""
        return self._read

    def write(self) -> Lock:
        """The lock of one writer, beside which nobody reads."""
        return self._write


class Lease(LeaseBase):
    """The right to act, limited in time.

    Leaving it releases the lock. It is true while it holds.
    """

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """The loss of this lease, to be asked or waited for."""
        return Lost(self._core, self._hold)

    async def renew(self, *, ttl: float | None = None) -> None:
        """Renew now, with a new ttl if one is given; raise LeaseLost if it is lost."""
        await self._core.lifecycle.renew(self._hold, None if ttl is None else check_ttl(ttl))

    def hand_over(self) -> str:
        """Give the lease to another process: ``client.take_over(token)`` there goes on with it.

        It is over here at once, without a release: nothing renews it until it is taken over, and
        it ends after its ttl if nobody does. Whoever has the token has the lock: keep it secret.
        """
        return self._core.lifecycle.give_away(self._hold)

    async def downgrade(self) -> None:
        """Keep a write lock as a read lock: others may read now, and nobody has written between.

        The fence stays. After an error it may be called again.
        """
        await self._core.lifecycle.downgrade(self._hold)

    async def release(self) -> bool:
        """Give the lock back: True when this freed it, False when the lease was no longer ours.

        Calling it again does nothing. An inner level of a re-entered lease gives back its level.
        """
        return await self._core.lifecycle.release(self._hold)

    async def __aenter__(self) -> Lease:
        self.check()
        cancel_scope.enter(self._hold)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await cancel_scope.leave(self._core, self._hold, error)


class Lost(LostBase):
    """Whether a lease is lost, to be asked or waited for."""

    __slots__ = ()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for the loss; False when time is up or the lease was released."""
        return await self._core.wait_lost(self._hold, check_timeout(timeout))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The classes of recipes, which stand above the client and are loaded when first named."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .recipes import aio as recipes

        return getattr(recipes, name)
