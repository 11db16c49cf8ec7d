"""Base classes of the sync and asyncio API: everything that never waits.

Methods that may wait are written by hand in ``sync.py`` and ``aio.py``, one line each, with equal
signatures.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, SupportsIndex, TypeVar, Unpack

from ..errors import LeaseLost
from ..model import Meta, Owed, Role, Safety, Traits
from .client import Core
from .hold_state import HoldState
from .lease_lifecycle import Levels
from .lock_options import (
    DEFAULT_TTL_S,
    READ,
    WRITE,
    HoldOptions,
    LockSpec,
    make_lock_spec,
    make_shared_spec,
    semaphore_share,
)
from .with_stack import WithStack

B = TypeVar("B")
Lock = TypeVar("Lock", bound="LockBase[Any]")
RWLock = TypeVar("RWLock")
Locks = TypeVar("Locks")
Election = TypeVar("Election")
Once = TypeVar("Once")
Barrier = TypeVar("Barrier")
Latch = TypeVar("Latch")

if TYPE_CHECKING:
    from ..engine import Address

    AnyCore = Core[Any]


class Cores(Protocol):
    """The cores of a client: one for all threads, or one for each event loop."""

    closed: bool

    @property
    def address(self) -> Address: ...

    @property
    def traits(self) -> Traits: ...

    def here(self) -> AnyCore:
        """Return the core for the calling thread or event loop."""
        ...

    def demand(self, spec: LockSpec) -> None:
        """Refuse what the engine cannot promise, as far as that is known now."""
        ...

    def owed(self) -> tuple[Owed, ...]: ...

    async def close(self) -> None: ...


class ClientBase(Generic[Lock, RWLock, Locks, Election, Once, Barrier, Latch]):
    """A client of one engine, and what it describes without sending anything."""

    def __init__(self, cores: Cores) -> None:
        self._cores = cores

    @property
    def _core(self) -> AnyCore:
        return self._cores.here()

    @property
    def traits(self) -> Traits:
        """What the engine promises, as configured; some know all of it only once they are open."""
        return self._cores.traits

    @property
    def url(self) -> str:
        """Where the engine is, without its password."""
        return self._cores.address.public

    @property
    def owed(self) -> tuple[Owed, ...]:
        """The undos that the engine has not confirmed, and that go on in the background."""
        return self._cores.owed()

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
        thread or task enter again. ``safety`` refuses an engine that promises less. ``meta`` is
        shown to whoever asks who holds the lock. ``key`` is the number under which other programs
        know the lock, in a store that locks by numbers. ``min_hold`` keeps others out for so long
        even if it is released sooner, ``delay`` for so long after a holder was lost. ``group`` is
        what metrics call it together with others of its kind.
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
        return self._lock(spec)

    def semaphore(self, name: str, *, limit: int, **options: Unpack[HoldOptions]) -> Lock:
        """Describe a semaphore: at most ``limit`` hold it at a time, in the order they came.

        A lease has a ``slot`` from 0 to limit - 1, and a fence that grows with every grant of that
        slot. The options are those of ``lock``. A lock of the same name is something else.
        """
        return self._lock(make_shared_spec(name, semaphore_share(limit), options))

    def locks(self, *names: str, **options: Unpack[HoldOptions]) -> Locks:
        """Describe several locks that are held together: all or none.

        They are acquired in one order for everybody, so that two who name them differently do not
        wait for each other. One timeout covers all, and the loss of one is the loss of all. The
        options are those of ``lock``.
        """

        def spec(name: str) -> LockSpec:
            return self.lock(name, **options)._spec  # pyright: ignore[reportPrivateUsage]

        locks: Locks = self._recipes().Locks(self._cores, names, spec)
        return locks

    def rwlock(self, name: str, **options: Unpack[HoldOptions]) -> RWLock:
        """Describe a read/write lock: many hold ``.read()`` together, or one ``.write()``.

        They are served in the order they came, so that neither side starves. The options are those
        of ``lock``. A lock of the same name is something else.
        """
        spec = make_shared_spec(name, WRITE, options)
        return self._rwlock(self._lock(spec._replace(share=READ)), self._lock(spec))

    def election(self, name: str, **options: Unpack[HoldOptions]) -> Election:
        """Describe an election: whoever holds the lock of this name leads.

        The options are those of ``lock``. Every engine can elect.
        """
        election: Election = self._recipes().Election(self.lock(name, **options))
        return election

    def once(self, name: str, *, every: float, **options: Unpack[HoldOptions]) -> Once:
        """Describe work that is done once in every window of so many seconds, by one of many.

        Windows are counted on the wall clock of each machine. It is a block and a decorator. The
        options are those of ``lock``; it waits until the window ends at the longest, so that a
        runner that crashed is replaced, and ``timeout=0`` skips at once.
        """
        once: Once = self._recipes().Once(self.lock(name, **options), every)
        return once

    def barrier(self, name: str, parties: int, *, ttl: float = DEFAULT_TTL_S) -> Barrier:
        """Describe a barrier: so many parties wait for each other, again and again.

        A party that crashed counts until its ``ttl`` is over.
        """
        recipes = self._recipes()
        slots = self.semaphore(recipes.slots_name(name, parties), limit=parties, ttl=ttl)
        barrier: Barrier = recipes.Barrier(name, slots)
        return barrier

    def latch(self, name: str, count: int, *, keep: float = 7 * 86_400.0) -> Latch:
        """Describe a latch: it opens for all who wait once it was counted down so many times.

        What was counted is kept for so many seconds after the last time, here a week.
        """
        latch: Latch = self._recipes().Latch(self._cores, name, count, keep)
        return latch

    def _lock(self, spec: LockSpec) -> Lock:
        """Make a lock of this flavor, or refuse what the engine cannot promise."""
        raise NotImplementedError

    def _rwlock(self, read: Lock, write: Lock) -> RWLock:
        raise NotImplementedError

    def _recipes(self) -> Any:
        """Return the module of this flavor's recipes, which is imported on first use."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a client cannot be copied or pickled: hand on its URL and connect there")

    def __repr__(self) -> str:
        return f"<{_path(self)} {self.url}{' (closed)' if self._cores.closed else ''}>"


class LockBase(Generic[B]):
    """A description of a lock.

    It holds no lease: threads or tasks may share it and use it again and again.
    """

    def __init__(self, cores: Cores, spec: LockSpec) -> None:
        self._cores = cores
        self._spec = spec
        self._blocks: WithStack[B] = WithStack()

    @property
    def name(self) -> str:
        """What is locked."""
        return self._spec.name

    def _entered(self) -> Levels | None:
        """Return how often the calling thread or task has entered a re-entrant lock, if it has."""
        if not self._spec.reentrant:
            return None
        core = self._cores.here()
        return core.lifecycle.levels(core.world.who(), self._spec.name)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a lock cannot be copied or pickled: describe it again with another client")

    def __repr__(self) -> str:
        return f"<{_path(self)} {self.name!r} ttl={self._spec.ttl:g}>"


class RWLockBase(Generic[Lock]):
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


class LeaseBase:
    """The right to act, limited in time. It is true while it holds."""

    __slots__ = ("__weakref__", "_core", "_hold")

    def __init__(self, core: AnyCore, hold: HoldState) -> None:
        self._core = core
        self._hold = hold

    @property
    def name(self) -> str:
        """What is locked."""
        return self._hold.grant.name

    @property
    def fence(self) -> int:
        """The number of this grant, above that of every earlier grant of the name.

        Hand it to the resource.
        """
        return self._hold.grant.fence

    @property
    def role(self) -> Role:
        """What is held: a lock, a slot of a semaphore, a read or a write lock."""
        return self._hold.role

    @property
    def slot(self) -> int | None:
        """Which slot of a semaphore, from 0; fences grow within a slot. None for other locks."""
        share = self._hold.grant.share
        return None if share is None else share.slot

    @property
    def ttl(self) -> float:
        """Length of the lease in seconds, as the engine granted it."""
        return self._hold.ttl

    @property
    def meta(self) -> Meta:
        """What others see of the holder."""
        return self._core.lifecycle.meta(self._hold)

    @property
    def reason(self) -> str | None:
        """Why the lease is lost, or None while it is not."""
        loss = self._core.lifecycle.loss(self._hold)
        return None if loss is None else loss.reason

    @property
    def renewals(self) -> int:
        """How often the lease was renewed."""
        return self._hold.renewals

    @property
    def connection(self) -> Any:
        """The driver's connection whose open transaction holds the lock, so that lock and data are
        committed together.

        Only engines that hold a lock by a transaction have it, such as postgresql with mode=row.
        """
        return self._core.lifecycle.connection(self._hold)

    def remaining(self) -> float:
        """Seconds for which the lease still promises exclusivity; 0 when it is over."""
        return self._core.lifecycle.remaining(self._hold)

    def check(self) -> None:
        """Raise LeaseLost unless the lease holds."""
        self._core.lifecycle.check(self._hold)

    def __bool__(self) -> bool:
        return self.remaining() > 0

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a lease cannot be copied or pickled: hand on its fence instead")

    def __del__(self) -> None:
        hold = getattr(self, "_hold", None)  # __init__ may have been interrupted
        if hold is not None and not hold.released and self._core.lifecycle.abandon(hold):
            warnings.warn(
                f"the lease on {self.name!r} was dropped without release() and is renewed no more: "
                f"the lock is free in {self.ttl:g} s at the latest",
                ResourceWarning,
                stacklevel=2,
                source=self,
            )

    def __repr__(self) -> str:
        state = f"{self.remaining():.3g} s left" if self else self.reason or "released"
        return f"<{_path(self)} {self.name!r} fence={self.fence} {state}>"


def hold_of(lease: LeaseBase) -> HoldState:
    """Return the state of a lease."""
    return lease._hold  # pyright: ignore[reportPrivateUsage]


def leave_later(lease: LeaseBase, levels: int, error: BaseException | None) -> None:
    """End the innermost of so many levels; 0 if they were not counted yet."""
    core = lease._core  # pyright: ignore[reportPrivateUsage]
    core.lifecycle.leave_later(hold_of(lease), levels or hold_of(lease).count, error)


class LostBase:
    """Whether a lease is lost. It is true once it is."""

    __slots__ = ("_core", "_hold")

    def __init__(self, core: AnyCore, hold: HoldState) -> None:
        self._core = core
        self._hold = hold

    def is_set(self) -> bool:
        """True once the lease is lost, judged by our own clock even if nobody has told us."""
        return self._core.lifecycle.loss(self._hold) is not None

    def __bool__(self) -> bool:
        return self.is_set()


def _path(instance: object) -> str:
    module = type(instance).__module__.replace(".sync", "")
    return f"{module}.{type(instance).__qualname__}"
