"""Define a check, and how it says that a promise was broken.

Checks do not use ``assert``: a judge must judge under ``python -O`` too, and its messages are read
by people who did not write it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar
from unittest import SkipTest

from ...errors import FencelockError

if TYPE_CHECKING:
    from ...aio import Lock, Locks

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

Flavor: TypeAlias = Literal["sync", "asyncio"]
FLAVORS: tuple[Flavor, ...] = ("sync", "asyncio")

Body: TypeAlias = Callable[[Any], Coroutine[Any, Any, None]]
"""A coroutine function of a CheckContext."""


class Broken(AssertionError):
    """A promise was not kept."""


class NotApplicable(SkipTest):
    """The engine does not promise what the check is about."""


class Check(NamedTuple):
    """One promise, and the coroutine function that sees whether it is kept."""

    name: str
    promise: str
    """What is promised, in one sentence."""
    body: Body
    needs: tuple[str, ...] = ()
    """Traits (fence, fifo, push, durable) and optional verbs (revoke, scan) it is about; claims,
    where the first in a queue has to ask again before it holds (``Engine.first_holds`` is not);
    store, where it is reached directly (``Engine.is_service`` is not)."""
    flavors: tuple[Flavor, ...] = FLAVORS

    def __str__(self) -> str:
        return self.name


def check(*needs: str, flavors: tuple[Flavor, ...] = FLAVORS) -> Callable[[Body], Check]:
    """Make a check of a coroutine function: its name and docstring say what is promised."""

    def make(body: Body) -> Check:
        promise = " ".join((body.__doc__ or "").split())
        return Check(body.__name__, promise, body, needs, flavors)

    return make


def expect(truth: object, otherwise: str) -> None:
    """See that something holds; say what is wrong if it does not."""
    if not truth:
        raise Broken(otherwise)


def given(lease: T | None, why: str = "the lock is free") -> T:
    """A lease that must have been granted."""
    if lease is None:
        raise Broken(f"the lock was refused although {why}")
    return lease


async def kept_out(lock: Lock | Locks, otherwise: str) -> None:
    """See that a lock cannot be acquired now."""
    lease = await lock.try_acquire()
    if lease is not None:
        await give_back(lease)
        raise Broken(otherwise)


async def refused(kind: type[E], work: Awaitable[object], what: str) -> E:
    """The error that a call must end with."""
    try:
        answer = await work
    except kind as error:
        return error
    returned = repr(answer)
    await give_back(answer)
    raise Broken(f"{what} must raise {kind.__name__}, and returned {returned}")


async def give_back(answer: Any) -> None:
    """Release what a call returned, if it is a lease: whoever is judged, no lease is dropped."""
    if hasattr(answer, "release"):
        try:
            await answer.release()
        except FencelockError:
            pass  # its client is closed, say; what matters is that the lease is over
