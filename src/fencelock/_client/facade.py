"""Base classes of the sync and asyncio API: everything that never waits.

Methods that may wait are written by hand in ``sync.py`` and ``aio.py``, one line each, with equal
signatures.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, SupportsIndex, TypeVar

from ..model import Meta, Owed, Role, Traits
from .client import Core
from .hold_state import HoldState
from .lock_options import LockSpec
from .with_stack import WithStack

B = TypeVar("B")

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
        """The core for whoever calls."""
        ...

    def owed(self) -> tuple[Owed, ...]: ...

    async def close(self) -> None: ...


class ClientBase:
    """A client of one engine."""

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
        """What the engine has not confirmed yet and the client goes on to take back."""
        return self._cores.owed()

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

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a lock cannot be copied or pickled: describe it again with another client")

    def __repr__(self) -> str:
        return f"<{_path(self)} {self.name!r} ttl={self._spec.ttl:g}>"


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
        hold = getattr(self, "_hold", None)  # an exception may come before it has one
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
