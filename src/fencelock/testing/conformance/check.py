"""The definition of a check, and how it reports that a promise was broken.

Checks do not use ``assert``: they must work under ``python -O`` too, and their messages are read
by people who did not write them.
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
    """One promise, and the coroutine function that checks whether it is kept."""

    name: str
    promise: str
    """The promise, in one sentence: the docstring of the function."""
    body: Body
    needs: tuple[str, ...] = ()
    """The traits (such as fence, fifo, push) and optional methods (revoke, scan, observe) that it
    needs; claims: the first in a queue has to retry before it holds (not ``Engine.first_holds``);
    store: the store is reached directly (not ``Engine.is_service``)."""
    flavors: tuple[Flavor, ...] = FLAVORS

    def __str__(self) -> str:
        return self.name


def check(*needs: str, flavors: tuple[Flavor, ...] = FLAVORS) -> Callable[[Body], Check]:
    """Make a check of a coroutine function; its docstring, which users see, is the promise."""

    def make(body: Body) -> Check:
        promise = " ".join((body.__doc__ or "").split())
        return Check(body.__name__, promise, body, needs, flavors)

    return make


def expect(truth: object, otherwise: str) -> None:
    """Raise Broken with the given message unless something is true."""
    if not truth:
        raise Broken(otherwise)


def given(lease: T | None, why: str = "the lock is free") -> T:
    """Return a lease; raise Broken if it was not granted."""
    if lease is None:
        raise Broken(f"the lock was refused although {why}")
    return lease


async def kept_out(lock: Lock | Locks, otherwise: str) -> None:
    """Raise Broken if a lock can be acquired now."""
    lease = await lock.try_acquire()
    if lease is not None:
        await give_back(lease)
        raise Broken(otherwise)


async def refused(kind: type[E], work: Awaitable[object], what: str) -> E:
    """Return the error that a call must end with; raise Broken if it returns."""
    try:
        answer = await work
    except kind as error:
        return error
    returned = repr(answer)
    await give_back(answer)
    raise Broken(f"{what} must raise {kind.__name__}, and returned {returned}")


async def give_back(answer: Any) -> None:
    """Release what a call returned, if it is a lease: no check may drop a lease unreleased."""
    if hasattr(answer, "release"):
        try:
            await answer.release()
        except FencelockError:
            pass  # its client is closed, say; what matters is that the lease is over
