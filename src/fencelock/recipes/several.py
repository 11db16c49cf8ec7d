"""Acquire several locks: all or none, in one order for everybody, with one loss for all.

* If all are free, they are acquired in one step, where the engine can do that.
* A caller that has to wait acquires one after another. The order is that of the names' bytes,
  whatever order a caller names them in: of two callers that want the same locks, one gets the first
  of them, and the other waits for it without holding any.
* One timeout covers all. What was acquired is renewed by the keeper meanwhile, and released in
  reverse if one cannot be acquired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

from .._client import policy
from .._client.attempt_all import attempt_all, is_plain
from .._client.facade import Cores, LeaseBase, hold_of
from .._client.lease_lifecycle import Levels
from .._client.lock_options import LockSpec
from .._client.with_stack import WithStack
from ..errors import FencelockError, LeaseLost, UsageError
from ..model import Busy
from ..world import GRACE_S, NO_LIMIT

if TYPE_CHECKING:
    from .._client.client import Core

CANCELLED_S = 0.25  # after the grace of the attempt that was cancelled: a second for both

L = TypeVar("L", bound=LeaseBase)
B = TypeVar("B")


def in_order(names: Sequence[object], spec: Callable[[str], LockSpec]) -> list[LockSpec]:
    """Return the locks to acquire, first to last."""
    if not names:
        raise UsageError("locks() needs the names of the locks: locks('a', 'b')")
    specs = [spec(name) for name in names]  # type: ignore[arg-type]  # each name is checked
    specs.sort(key=lambda spec: spec.name.encode())
    for one, other in pairwise(specs):
        if one.name == other.name:
            raise UsageError(f"locks() has {one.name!r} twice: it would wait for itself")
    return specs


def _told_once(specs: Sequence[LockSpec]) -> Sequence[LockSpec]:
    """Have ``on_lost`` called for the first loss only: it is one loss for all."""
    on_lost, told = specs[0].on_lost, list[LeaseLost]()
    if on_lost is None:
        return specs

    def first(error: LeaseLost) -> object:
        told.append(error)
        return on_lost(error) if told[0] is error else None

    return [spec._replace(on_lost=first) for spec in specs]


async def acquire_all(
    core: Core[L], specs: Sequence[LockSpec], timeout: float | None
) -> list[L] | tuple[str, Busy]:
    """Acquire all within the timeout, or none: then return which one could not be acquired."""
    deadline = policy.deadline(core.world.now(), timeout)
    limit = NO_LIMIT if deadline is None else deadline + GRACE_S  # for all of them together
    specs, leases = _told_once(specs), list[L]()
    entered = entered_before(core, specs)
    try:
        if len(specs) > 1 and is_plain(specs[0]):
            at_once = await attempt_all(core, specs, timeout)
            if isinstance(at_once, list):
                leases = at_once
            elif at_once is not None and timeout == 0:
                return at_once
        for spec in specs if not leases else ():
            rest = None if deadline is None else max(0.0, deadline - core.world.now())
            if core.world.now() >= limit:
                answer: L | Busy = Busy(0.0)
            else:
                answer = await core.attempt(spec, rest, limit)
            if isinstance(answer, Busy):
                await release_all(core, leases, _limit(core, deadline))
                return spec.name, answer
            leases.append(answer)
        for lease in leases:
            lease.check()
        return leases
    except FencelockError:
        await release_all(core, leases, _limit(core, deadline))
        raise
    except BaseException:
        restore(entered)
        inside = [levels.hold for levels in entered]
        ours = [lease for lease in leases if hold_of(lease) not in inside]
        await core.world.shield(release_later(core, ours))
        raise


def entered_before(core: Core[L], specs: Sequence[LockSpec]) -> list[Levels]:
    """Return how often the calling thread or task has entered those locks that it has."""
    if not specs[0].reentrant:  # one option of all
        return []
    who, levels = core.world.who(), core.lifecycle.levels
    return [found for spec in specs if (found := levels(who, spec.name)) is not None]


def _limit(core: Core[L], deadline: float | None) -> float | None:
    """Return by when a failed attempt is to release its locks; None if it had no timeout."""
    if deadline is None:
        return None
    return min(deadline + GRACE_S, core.world.now() + policy.RELEASE_S)


async def release_all(core: Core[L], leases: Sequence[L], limit: float | None = None) -> bool:
    """Release all, in one step or the last one first; True when each was still ours.

    All are tried. A release that could not be confirmed, by the limit if there is one, goes on in
    the background, and its error is raised.
    """
    answers = await core.lifecycle.release_all([hold_of(lease) for lease in leases], limit)
    if answers is not None:
        return all(answers)
    freed, failure = True, None
    for lease in reversed(leases):
        try:
            freed = await core.lifecycle.release(hold_of(lease), limit=limit) and freed
        except FencelockError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return freed


async def release_later(core: Core[L], leases: Sequence[L]) -> None:
    """Release the leases of a caller that cannot wait for it: it was cancelled or interrupted."""
    if core.world.cancels:
        try:
            await release_all(core, leases, core.world.now() + CANCELLED_S)
        except FencelockError:
            pass  # it goes on in the background
    else:
        for lease in leases:
            core.lifecycle.release_later(hold_of(lease))


async def leave_all(core: Core[L], leases: Sequence[L]) -> None:
    """Release in one step what can be, before each lease is left by itself: that has nothing to do
    then, or raises what went wrong."""
    try:
        await core.lifecycle.release_all([hold_of(lease) for lease in leases])
    except FencelockError:
        pass


def restore(entered: Sequence[Levels]) -> None:
    """Undo what an interrupted call has entered of what was entered before."""
    for levels in entered:
        levels.restore()


def is_any_lost(leases: LeasesBase[L]) -> bool:
    """Return whether one of the leases is lost."""
    return any(lease.reason is not None for lease in leases.values())


async def wait_any_lost(leases: LeasesBase[L], timeout: float | None) -> bool:
    """Wait until one is lost; False when time is up or all were released."""
    world, holds = leases.core.world, [hold_of(lease) for lease in leases.values()]
    deadline, signal = policy.deadline(world.now(), timeout), holds[0].signal or world.signal()
    for hold in holds:
        hold.signal = hold.signal or signal
    while not is_any_lost(leases):
        now = world.now()
        if all(hold.released for hold in holds) or (deadline is not None and now >= deadline):
            return False
        with world.until(NO_LIMIT):  # naps notice releases, and leases with a signal of their own
            await world.wait(signal, policy.earlier(deadline, now + 1.0))
    return True


def levels_of(leases: LeasesBase[L]) -> list[int]:
    """Return how often each of them was entered."""
    return [hold_of(lease).count for lease in leases.values()]


def leave_later(leases: LeasesBase[L], levels: Sequence[int], error: BaseException | None) -> None:
    """End the innermost of so many levels of each, however far an interrupted call has come."""
    for lease, count in zip(leases.values(), levels, strict=True):
        leases.core.lifecycle.leave_later(hold_of(lease), count, error)


class LocksBase(Generic[B]):
    """A description of several locks. It holds no lease."""

    def __init__(
        self, cores: Cores, names: Sequence[object], spec: Callable[[str], LockSpec]
    ) -> None:
        self._cores = cores
        self._specs = in_order(names, spec)
        self._blocks: WithStack[B] = WithStack()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the locks, in the order in which they are acquired."""
        return tuple(spec.name for spec in self._specs)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Locks {', '.join(map(repr, self.names))}>"


class LeasesBase(Mapping[str, L]):
    """The leases of several locks, by name. True while all of them hold."""

    def __init__(self, core: Core[L], leases: Sequence[L]) -> None:
        self.core = core
        self._leases = {lease.name: lease for lease in leases}

    def __getitem__(self, name: str) -> L:
        return self._leases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def __len__(self) -> int:
        return len(self._leases)

    def __bool__(self) -> bool:
        return all(self._leases.values())

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each lock, for the guard of what it protects."""
        return {name: lease.fence for name, lease in self._leases.items()}

    @property
    def reason(self) -> str | None:
        """Why one of them was lost, the first in their order, or None."""
        return next((lease.reason for lease in self._leases.values() if lease.reason), None)

    def remaining(self) -> float:
        """Return the seconds for which all of them may be relied on; 0 when one is over."""
        return min(lease.remaining() for lease in self._leases.values())

    def check(self) -> None:
        """Raise LeaseLost unless all hold."""
        for lease in self._leases.values():
            lease.check()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Leases {self.fences}>"
