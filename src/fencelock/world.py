"""The few things protocol code may ask of its surroundings.

Protocol code (``_client/``, the engines' protocol files) is written once, as plain
``async def``, and sees time, waiting, parallel calls, background work, randomness and identity only
through a World.

* ``worlds/aio.py``: the coroutine is awaited by the running event loop.
* ``worlds/threads.py``: ``drive()`` runs the coroutine to its end in one go, in the
  calling thread. It never suspends, because every leaf has done its blocking work by the time it
  returns.
* ``sim/world.py``: leaves trap to a seeded scheduler with virtual time; one seed decides
  everything.

This module knows none of the three.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

K = TypeVar("K")
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

Flavor: TypeAlias = Literal["threads", "asyncio", "sim"]

GRACE_S = 0.75
"""How long a call waits for its engine past its caller's deadline or cancellation: what is not done
by then goes on in the background. With the moment that a connection takes to give up, it is less
than the second that is promised."""
NO_LIMIT = float("inf")


class Signal(Protocol):
    """A flag that can be waited for. It stays set until it is cleared; any thread may set it."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def is_set(self) -> bool: ...


class Job(Protocol):
    """Work that goes on in the background."""

    async def join(self, deadline: float | None) -> bool:
        """Wait until it has ended, and say whether it has."""
        ...


class Adopted(Protocol):
    """A blocking client, wrapped so that its calls can be awaited and run one at a time."""

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    async def close(self) -> None:
        """Let the last call end and take no more."""
        ...


class World(Protocol):
    """One process's surroundings, in one flavor."""

    @property
    def flavor(self) -> Flavor:
        """Which of the three this is: an engine chooses its wire by it, and nothing else."""
        ...

    @property
    def cancels(self) -> bool:
        """Whether a waiting caller can be cancelled; if not, ``shield`` is not needed."""
        ...

    def admit(self) -> None:
        """Raise UsageError where this world cannot be used: in another event loop, say."""
        ...

    def now(self) -> float:
        """Seconds on a clock that never steps and runs through suspend."""
        ...

    def wall_us(self) -> int:
        """Microseconds of the wall clock. It may step: only fences and schedules look at it."""
        ...

    def random(self) -> float:
        """A number from 0 up to 1."""
        ...

    def owner(self) -> str:
        """A new id of 128 random bits."""
        ...

    def who(self) -> Hashable:
        """The thread or task that is running: the same object exactly for the same one.

        It can be referred to weakly, and is: nothing here may keep a task alive.
        """
        ...

    def stalls(self) -> str:
        """Return what a blocking wait here would stop besides its caller: a sentence, or ""."""
        ...

    def facts(self) -> dict[str, str | int | float | bool | None]:
        """Host, process and thread or task, for people who ask who holds a lock."""
        ...

    def generation(self) -> int:
        """A number that differs in a forked child."""
        ...

    def mutex(self) -> AbstractContextManager[object]:
        """A plain mutex for a few statements that never wait."""
        ...

    def signal(self) -> Signal:
        """A new flag, not set."""
        ...

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        """Wait until the flag is set (True) or the deadline has passed (False)."""
        ...

    def until(self, moment: float, /) -> AbstractContextManager[object]:
        """Let no wait inside the block outlast a moment, and refuse a block within a block.

        Under threads and in the simulator every wait ends by ``limit()``, and the code that waited
        raises what it knows. asyncio cancels what the block awaits, as OutcomeUnknown.
        A block within a block of the same thread is a signal handler or a destructor that calls
        what it interrupted: under threads that is a UsageError, since it would wait for itself.
        """
        ...

    def unbound(self) -> None:
        """Reset an ``until`` block that an exception of a signal handler left open.

        For handlers of exceptions, before they call the engine once more.
        """
        ...

    def limit(self) -> float:
        """The moment by which the running call has to end; NO_LIMIT where there is none.

        Code that blocks a thread must observe it. asyncio has none: there the block ends the wait.
        """
        ...

    async def gather(
        self,
        thunks: Sequence[Callable[[], Awaitable[T]]],
        deadline: float,
        enough: Callable[[Sequence[T | Exception | None]], bool] | None = None,
    ) -> list[T | Exception | None]:
        """Make all calls at once; return when all have answered, at the deadline, or when it is
        enough.

        An exception is an answer, None stands for a call that has not answered yet. Such calls go
        on by themselves, and nobody looks at what they return.
        """
        ...

    async def shield(self, work: Coroutine[Any, Any, T], plain: bool = False) -> T:
        """Run to the end even if the caller is cancelled, and deliver the cancellation afterwards:
        once the work has ended, or ``GRACE_S`` later, when the work goes on by itself.

        Plain work waits for nothing but futures, looks neither at its task nor at its
        cancellation, and resolves an unknown outcome by itself, which is how a cancellation may
        reach it: so it can be run without a task of its own, which costs.
        """
        ...

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        """Run in the background."""
        ...

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], label: str) -> Job:
        """Run in the background until it returns, and start it again if somebody cancels it.

        Programs end by cancelling all tasks of their loop, and some still work under a lock then.
        """
        ...

    def adopt(self, label: str) -> Adopted:
        """Make the calls of a blocking client awaitable without blocking anybody else."""
        ...


async def sleep(world: World, seconds: float) -> None:
    """Let time pass."""
    await world.wait(world.signal(), world.now() + seconds)


def snapshot(shared: Mapping[K, T]) -> list[tuple[K, T]]:
    """The items of a dictionary that finalizers and other threads change meanwhile.

    ``list(shared.items())`` makes tuples, and may collect garbage between two of them (up to Python
    3.11): what is finalized then can change the dictionary, which is an error. Keys are taken
    without making anything.
    """
    missing = object()
    found = ((key, shared.get(key, missing)) for key in list(shared))
    return [(key, value) for key, value in found if value is not missing]  # type: ignore[misc]
