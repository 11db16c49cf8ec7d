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
from ._client import administration, cancel_scope
from ._client.client import Core
from ._client.facade import (
    ClientBase,
    LeaseBase,
    LockBase,
    LostBase,
    RWLockBase,
    hold_of,
    leave_later,
)
from ._client.holder_meta import not_in_time
from ._client.lock_options import LockOptions, LockSpec, Template, check_busy
from ._client.validation import check_name, check_prefix, check_reason, check_timeout, check_ttl
from .engine import Address, Engine
from .errors import FencelockError, UsageError
from .model import Busy, Holding, Owed, State, Traits
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
        """Return the core for the running loop."""
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
            if (core := self._cores.pop(other, None)) is not None:  # else another loop's call does
                _abandon(core)
        world = AioWorld()
        core = Core(world, partial(self._engine, world, self.address), Lease)
        return self._cores.setdefault(loop, core)

    def demand(self, spec: LockSpec) -> None:
        """Refuse at once what the engine cannot promise; outside a loop, acquiring does it."""
        try:
            core = self._cores.get(asyncio.get_running_loop())
        except RuntimeError:
            return
        if core is not None:
            core.demand(spec)

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
            elif not core.closed:
                asyncio.run_coroutine_threadsafe(core.close(), loop)


def _abandon(core: Core[Lease]) -> None:
    """Abandon the core of a loop that is closed: its transports cannot be closed any more."""
    try:
        core.abandon_all()
    except RuntimeError:
        pass


class Client(ClientBase["Lock", "RWLock", "Locks", "Election", "Once", "Barrier", "Latch"]):
    """A client of one engine.

    The tasks of an event loop share its connections; another loop gets connections of its own, and
    so does a forked child.
    """

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
        """Return the lease whose token another process made by ``hand_over()``.

        It is renewed from now on, with the same fence. LeaseLost says that it is gone meanwhile.
        """
        lease: Lease = await self._core.resume(token)
        return lease

    async def inspect(self, name: str) -> State:
        """Who holds a name now and who waits for it, first come first."""
        return await administration.inspect(self._core, check_name(name))

    async def scan(self, prefix: str = "") -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        return await administration.scan(self._core, check_prefix(prefix))

    async def revoke(self, name: str, reason: str) -> bool:
        """Take a lock from its holder, who is told why; False when nobody held it.

        The next fence is higher.
        """
        return await administration.revoke(self._core, check_name(name), check_reason(reason))

    async def open(self) -> None:
        """Reach the engine now, or raise: else the first call does."""
        await self._core.open()

    async def close(self) -> None:
        """Release what is held and let go of the engine. Closing twice does nothing."""
        await self._cores.close()

    def __await__(self) -> Generator[Any, None, Client]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _lock(self, spec: LockSpec) -> Lock:
        self._cores.demand(spec)
        return Lock(self._cores, spec)

    def _rwlock(self, read: Lock, write: Lock) -> RWLock:
        return RWLock(read, write)

    def _recipes(self) -> Any:
        from .recipes import aio

        return aio


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
        entered = self._entered() if self._spec.reentrant else None
        try:
            answer = await self._cores.here().attempt(self._spec, wait)
            if isinstance(answer, Busy):
                raise not_in_time(self.name, wait, answer)
            lease: Lease = answer
            return lease
        except BaseException:
            if entered is not None:
                entered.restore()
            raise

    async def try_acquire(self, *, timeout: float | None = 0) -> Lease | None:
        """Return a lease, or None if it cannot be acquired in time (by default: at once)."""
        wait = check_timeout(timeout)
        entered = self._entered() if self._spec.reentrant else None
        try:
            answer = await self._cores.here().attempt(self._spec, wait)
            return None if isinstance(answer, Busy) else answer
        except BaseException:
            if entered is not None:
                entered.restore()
            raise

    async def __aenter__(self) -> Lease:
        who, entered, lease = self._cores.here().world.who(), self._entered(), None
        depth = self._blocks.depth(who)
        try:
            lease = await self.acquire()
            self._blocks.enter(who, lease)
            return await lease.__aenter__()
        except BaseException as error:  # it may be lost already: nobody will leave this block
            self._blocks.cut(who, depth)
            if entered is not None:
                entered.restore()
            if lease is not None and (entered is None or hold_of(lease) is not entered.hold):
                await lease.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        levels, lease = 0, None
        try:
            lease = self._blocks.last(self._cores.here().world.who())
            levels = hold_of(lease).count
            self._blocks.remove(lease)
            await lease.__aexit__(kind, error, traceback)
        except FencelockError:
            raise
        except BaseException:  # of a signal handler: nobody will leave this block again
            if lease is None:
                lease = self._blocks.last(self._cores.here().world.who())
                self._blocks.remove(lease)
            leave_later(lease, levels, error)
            raise


class RWLock(RWLockBase["Lock"]):
    """A description of a read/write lock. It holds no lease."""


class Lease(LeaseBase):
    """The right to act, limited in time.

    Leaving it releases the lock. It is true while it holds.
    """

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """The loss of this lease, to be checked or waited for."""
        return Lost(self._core, self._hold)

    async def renew(self, *, ttl: float | None = None) -> None:
        """Renew now, with a new ttl if one is given; raise LeaseLost if it is lost."""
        await self._core.lifecycle.renew(self._hold, None if ttl is None else check_ttl(ttl))

    def hand_over(self) -> str:
        """Return a token with which ``client.take_over(token)`` takes the lease in another process.

        It ends here at once, without a release: nothing renews it until it is taken over, and
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
    """Whether a lease is lost, to be checked or waited for."""

    __slots__ = ()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for the loss; False when time is up or the lease was released."""
        return await self._core.wait_lost(self._hold, check_timeout(timeout))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a class of the recipes, built on the client and imported on first use."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .recipes import aio as recipes

        return getattr(recipes, name)
