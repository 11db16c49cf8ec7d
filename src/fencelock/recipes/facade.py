"""Base classes of the recipes in both flavors: everything that never waits."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, SupportsIndex, TypeVar

from .._client.facade import Cores, LockBase
from .._client.hold_state import HasHold
from .._client.with_stack import WithStack
from .barrier import Rendezvous
from .election import LeaderElection, as_election
from .latch import CountDown
from .once import Schedule, Turn

Lease = TypeVar("Lease", bound=HasHold)


class RecipeBase:
    """A description of a recipe; all that take part in it use the same name."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """The name that all that take part have in common."""
        return self._name

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        kind = type(self).__name__.lower()
        raise TypeError(
            f"{kind} cannot be copied or pickled: describe it again with another client"
        )

    def __repr__(self) -> str:
        flavor = "fencelock.aio" if type(self).__module__.endswith(".aio") else "fencelock"
        return f"<{flavor}.{type(self).__qualname__} {self.name!r}>"


class ElectionBase(RecipeBase):
    """The lock of an election, and the term that was won."""

    def __init__(self, lock: LockBase[Any]) -> None:
        super().__init__(lock.name)
        cores, spec = lock._cores, lock._spec  # pyright: ignore[reportPrivateUsage]
        self._lock: Any = type(lock)(cores, as_election(spec))
        self._election = LeaderElection(cores, spec.name, spec.ttl)


class OnceBase(RecipeBase, Generic[Lease]):
    """The windows of a schedule, and the turns of the blocks that are open."""

    def __init__(self, lock: LockBase[Any], every: float) -> None:
        super().__init__(lock.name)
        self._cores, spec = lock._cores, lock._spec  # pyright: ignore[reportPrivateUsage]
        self._schedule = Schedule(self._cores, spec, every)
        self._turns: WithStack[Turn[Lease]] = WithStack()


class BarrierBase(RecipeBase):
    """The slots of a barrier."""

    def __init__(self, name: str, slots: LockBase[Any]) -> None:
        super().__init__(name)
        cores, spec = slots._cores, slots._spec  # pyright: ignore[reportPrivateUsage]
        self._rendezvous = Rendezvous(cores, name, spec)


class LatchBase(RecipeBase):
    """The counts of a latch."""

    def __init__(self, cores: Cores, name: str, count: int, keep: float) -> None:
        super().__init__(name)
        self._counts = CountDown(cores, name, count, keep)
