"""fencelock for ordinary blocking programs. ``aio.py`` has the same names and signatures for
asyncio.

Everything runs in the calling thread; the only thread of our own is the keeper's, and the embedded
engine's listener while somebody waits. Each method is one line over ``_client``.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, overload

from . import engines
from ._client import administration
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
from .errors import FencelockError
from .model import Busy, Holding, State
from .worlds.threads import ThreadsWorld
from .worlds.threads import drive as drive  # the command line drives an engine too

if TYPE_CHECKING:
    from .recipes.sync import Barrier, Election, Latch, Leases, Locks, Once

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
    """A client of an engine: ``connect("sqlite:///locks.db")``.

    It opens itself on first use, so that it can be declared where a module is imported. ``with``
    and ``open()`` reach the engine at once.

    Without a URL, ``FENCELOCK_URL`` decides, and else a file in the user's state folder. Options of
    the engine are keyword arguments or query parameters of the URL.
    """
    engine, address = engines.resolve(url, options)
    world = ThreadsWorld()
    core: Core[Lease] = Core(world, partial(engine, world, address), Lease)
    _open.add(core)
    return Client(core)


class Client(ClientBase["Lock", "RWLock", "Locks", "Election", "Once", "Barrier", "Latch"]):
    """A connection to one engine.

    Threads may share it; a forked child gets a connection of its own on first use.
    """

    @overload
    def locked(
        self, name: str, *, busy: Literal["raise"] = "raise", **options: Unpack[LockOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def locked(
        self, name: str, *, busy: Literal["skip"], **options: Unpack[LockOptions]
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...

    def locked(
        self,
        name: str,
        *,
        busy: Literal["raise", "skip"] = "raise",
        **options: Unpack[LockOptions],
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
        """Decorate a function: each call holds the lock named by the template, filled from its
        arguments. It takes all options of ``lock``.

        ``busy="skip"`` returns None instead of raising if the lock cannot be acquired in time.
        A function with a parameter ``lease`` gets the lease there; callers cannot pass one.
        """
        lock = self.lock("template", **options)
        spec = lock._spec  # pyright: ignore[reportPrivateUsage]
        check_busy(busy)

        def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
            template = Template(name, function, asynchronous=False)

            def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
                lock = Lock(self._cores, template.named(spec, args, kwargs))
                skip = busy == "skip"
                lease = lock.try_acquire(timeout=spec.timeout) if skip else lock.acquire()
                if lease is None:
                    return None
                with lease:
                    value: R = template.finished(template.call(lease, args, kwargs))
                    return value

            template.wrap(call)
            return call

        return decorate

    def holders(self, name: str) -> list[Holding]:
        """Who holds a name now."""
        return list(self.inspect(name).holders)

    def take_over(self, token: str) -> Lease:
        """Return the lease whose token another process made by ``hand_over()``.

        It is renewed from now on, with the same fence. LeaseLost says that it is gone meanwhile.
        """
        lease: Lease = drive(self._core.resume(token))
        return lease

    def inspect(self, name: str) -> State:
        """Who holds a name now and who waits for it, first come first."""
        return drive(administration.inspect(self._core, check_name(name)))

    def scan(self, prefix: str = "") -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        return drive(administration.scan(self._core, check_prefix(prefix)))

    def revoke(self, name: str, reason: str) -> bool:
        """Take a lock from its holder, who is told why; False when nobody held it.

        The next fence is higher.
        """
        return drive(administration.revoke(self._core, check_name(name), check_reason(reason)))

    def open(self) -> None:
        """Reach the engine now, or raise: else the first call does."""
        drive(self._core.open())

    def close(self) -> None:
        """Release what is held and let go of the engine. Closing twice does nothing."""
        drive(self._core.close())

    def __enter__(self) -> Client:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self, spec: LockSpec) -> Lock:
        self._cores.demand(spec)
        return Lock(self._cores, spec)

    def _rwlock(self, read: Lock, write: Lock) -> RWLock:
        return RWLock(read, write)

    def _recipes(self) -> Any:
        from .recipes import sync

        return sync


class Lock(LockBase["Lease"]):
    """A description of a lock.

    It holds no lease: threads may share it, and it can be used again and again.
    """

    def acquire(self, *, timeout: float | Literal["default"] | None = "default") -> Lease:
        """Wait for the lock and return a lease, or raise AcquireTimeout.

        Leave the lease (``with lease:``) or call its ``release()``. ``timeout`` overrides the
        lock's own.
        """
        wait = self._spec.timeout if timeout == "default" else check_timeout(timeout)
        entered = self._entered() if self._spec.reentrant else None
        try:
            answer = drive(self._cores.here().attempt(self._spec, wait))
            if isinstance(answer, Busy):
                raise not_in_time(self.name, wait, answer)
            lease: Lease = answer
            return lease
        except BaseException:
            if entered is not None:
                entered.restore()
            raise

    def try_acquire(self, *, timeout: float | None = 0) -> Lease | None:
        """Return a lease, or None if it cannot be acquired in time (by default: at once)."""
        wait = check_timeout(timeout)
        entered = self._entered() if self._spec.reentrant else None
        try:
            answer = drive(self._cores.here().attempt(self._spec, wait))
            return None if isinstance(answer, Busy) else answer
        except BaseException:
            if entered is not None:
                entered.restore()
            raise

    def __enter__(self) -> Lease:
        who, entered, lease = self._cores.here().world.who(), self._entered(), None
        depth = self._blocks.depth(who)
        try:
            lease = self.acquire()
            self._blocks.enter(who, lease)
            return lease
        except BaseException as error:  # from a signal handler: nobody will leave this block
            self._blocks.cut(who, depth)
            if entered is not None:
                entered.restore()
            if lease is not None and (entered is None or hold_of(lease) is not entered.hold):
                lease.__exit__(type(error), error, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        levels, lease = 0, None
        try:
            lease = self._blocks.last(self._cores.here().world.who())
            levels = hold_of(lease).count
            lease.__exit__(kind, error, traceback)
        except FencelockError:
            raise
        except BaseException:  # from a signal handler: nobody will leave this block again
            if lease is None:
                lease = self._blocks.last(self._cores.here().world.who())
            leave_later(lease, levels, error)
            raise
        finally:
            if lease is not None:
                self._blocks.remove(lease)


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

    def renew(self, *, ttl: float | None = None) -> None:
        """Renew now, with a new ttl if one is given; raise LeaseLost if it is lost."""
        drive(self._core.lifecycle.renew(self._hold, None if ttl is None else check_ttl(ttl)))

    def hand_over(self) -> str:
        """Return a token with which ``client.take_over(token)`` takes the lease in another process.

        It ends here at once, without a release: nothing renews it until it is taken over, and
        it ends after its ttl if nobody does. Whoever has the token has the lock: keep it secret.
        """
        return self._core.lifecycle.give_away(self._hold)

    def downgrade(self) -> None:
        """Keep a write lock as a read lock: others may read now, and nobody has written between.

        The fence stays. After an error it may be called again.
        """
        drive(self._core.lifecycle.downgrade(self._hold))

    def release(self) -> bool:
        """Give the lock back: True when this freed it, False when the lease was no longer ours.

        Calling it again does nothing. An inner level of a re-entered lease gives back its level.
        """
        return drive(self._core.lifecycle.release(self._hold))

    def __enter__(self) -> Lease:
        self.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        drive(self._core.lifecycle.leave(self._hold, error))


class Lost(LostBase):
    """Whether a lease is lost, to be checked or waited for."""

    __slots__ = ()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the loss; False when time is up or the lease was released."""
        return drive(self._core.wait_lost(self._hold, check_timeout(timeout)))


_open: weakref.WeakSet[Core[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Release all that the program still holds at its end: best effort, in bounded time."""
    for core in list(_open):
        try:
            drive(core.close())
        except (FencelockError, OSError, RuntimeError):
            pass  # the ttl frees what we could not


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a class of the recipes, built on the client and imported on first use."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from .recipes import sync as recipes

        return getattr(recipes, name)
