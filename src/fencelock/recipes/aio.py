"""The recipes for asyncio programs: the same names and signatures as ``sync.py``, awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from .._client.facade import Cores
from .._client.lock_options import Template
from .._client.with_stack import WithStack
from ..errors import FencelockError, OutcomeUnknown, Unavailable
from ..model import Holding
from .barrier import Rendezvous, slots_name
from .election import LeaderElection, as_election, is_succeeded
from .facade import RecipeBase
from .latch import CountDown
from .once import Schedule, Turn
from .several_aio import Leases, Locks

if TYPE_CHECKING:
    from ..aio import Lease, Lock

__all__ = ["Barrier", "Election", "Latch", "Leases", "Locks", "Once", "slots_name"]

P = ParamSpec("P")
R = TypeVar("R")


class Election(RecipeBase):
    """A description of an election: whoever campaigns and wins leads, for a term.

    A term is a lease: it is renewed while the leader lives, and its fence is the epoch that guards
    take.
    """

    def __init__(self, lock: Lock) -> None:
        super().__init__(lock.name)
        cores, spec = lock._cores, lock._spec  # pyright: ignore[reportPrivateUsage]
        self._lock = type(lock)(cores, as_election(spec))
        self._election = LeaderElection(cores, spec.name, spec.ttl)

    async def campaign(self, *, timeout: float | Literal["default"] | None = "default") -> Lease:
        """Wait until we lead and return the term, or raise AcquireTimeout.

        Leave the term (``async with term:``), call its ``release()`` or ``resign()``.
        """
        return await self._election.won(await self._lock.acquire(timeout=timeout))

    async def leader(self) -> Holding | None:
        """Who leads now, or None."""
        return await self._election.leader()

    def observe(self) -> AsyncIterator[Holding | None]:
        """Iterate over the leaders: who leads now, or None, and then every change.

        It waits for changes, which are pushed where the engine has push. What changes faster than
        it is asked for is told as one change. A long outage of the engine is raised.
        """
        return self._changes()

    async def _changes(self) -> AsyncGenerator[Holding | None, None]:
        watch = self._election.watch()
        try:
            await watch.begin()
            while True:
                yield await watch.next()
        finally:
            await watch.end()

    async def resign(self) -> bool:
        """Give back the term that was last won here: True when this ended it."""
        return await self._election.resign()

    async def run(self, work: Callable[[Lease], Awaitable[R]]) -> R:
        """Lead and work: campaign, call ``work(term)``, and campaign again when the term is lost.

        When the work returns, resign and return its value; when it raises, resign and raise that.
        A thread is not interrupted: work looks at ``term.lost`` or ``term.check()``, and ends.
        Whatever it returns after its term was lost is dropped, and LeaseLost or StaleFence that it
        raises then is not raised here. An outage of the engine is waited out.
        """
        await self._election.board.core.open()  # a wrong address is told at once
        while True:
            term = await self._elected()
            try:
                async with term:
                    return await work(term)
            except FencelockError as error:
                if not is_succeeded(term, error):
                    raise
            finally:
                await self._election.board.announce()

    async def _elected(self) -> Lease:
        """Campaign through outages."""
        while True:
            try:
                return await self.campaign()
            except (Unavailable, OutcomeUnknown) as error:
                await self._election.outlast(error)

    async def __aenter__(self) -> Lease:
        term = await self._lock.__aenter__()
        try:
            return await self._election.won(term)
        except BaseException as error:  # nobody will leave this block
            await self._lock.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._lock.__aexit__(kind, error, traceback)
        finally:
            await self._election.board.announce()


class Once(RecipeBase):
    """A description of work that is done once in every window of time, by one of many.

    ``async with once as turn:`` gives the lease under which to work, or None where the window is to
    be skipped: write ``if turn:`` around the work. A decorated function returns None when it is
    skipped, and gets the lease in its parameter ``lease`` if it has one.

    Work that ends well is remembered for its window; work that raises is not, and another may do
    it. A runner that crashes is replaced by one that waits, once its ttl is over: then work is done
    at least once, and not exactly once.
    """

    def __init__(self, lock: Lock, every: float) -> None:
        super().__init__(lock.name)
        cores, spec = lock._cores, lock._spec  # pyright: ignore[reportPrivateUsage]
        self._schedule = Schedule(cores, spec, every)
        self._turns: WithStack[Turn[Lease]] = WithStack()
        self._cores = cores

    async def __aenter__(self) -> Lease | None:
        turn: Turn[Lease] = await self._schedule.begin()
        self._turns.enter(self._cores.here().world.who(), turn)
        if turn.lease is None:
            return None
        try:
            return await turn.lease.__aenter__()
        except BaseException as error:  # it is over already: nobody will leave this block
            self._turns.remove(turn)
            await turn.lease.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        turn = self._turns.last(self._cores.here().world.who())
        self._turns.remove(turn)
        if turn.lease is None:
            return
        try:
            await self._schedule.end(turn, error)
        except BaseException as failure:
            await turn.lease.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        await turn.lease.__aexit__(kind, error, traceback)

    def __call__(
        self, function: Callable[P, Awaitable[R]]
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        template = Template("once", function, asynchronous=True, decorator="once")

        async def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            template.name(args, kwargs)  # what it cannot be called with is told before
            async with self as turn:
                if turn is None:
                    return None
                result = template.awaitable(template.call(turn, args, kwargs))
                value: R = template.finished(await result)
                return value

        template.wrap(call)
        return call


class Barrier(RecipeBase):
    """A description of a barrier, at which a number of parties wait for each other."""

    def __init__(self, name: str, slots: Lock) -> None:
        super().__init__(name)
        cores, spec = slots._cores, slots._spec  # pyright: ignore[reportPrivateUsage]
        self._rendezvous = Rendezvous(cores, name, spec)

    async def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties have come, or raise AcquireTimeout.

        The result is a number from 0 to parties - 1, another one for each of those who pass
        together.
        """
        return await self._rendezvous.wait(timeout)


class Latch(RecipeBase):
    """A description of a latch, which opens once it was counted down a number of times."""

    def __init__(self, cores: Cores, name: str, count: int, keep: float) -> None:
        super().__init__(name)
        self._counts = CountDown(cores, name, count, keep)

    async def count_down(self, *, by: str | None = None) -> int:
        """Count once, and return how many are still to come. An open latch stays open.

        With ``by`` it counts once for each such text, however often it is called.
        """
        return await self._counts.count_down(by)

    async def remaining(self) -> int:
        """How many are still to come."""
        return await self._counts.remaining()

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until the latch is open, or raise AcquireTimeout."""
        await self._counts.wait(timeout)

    async def reset(self) -> None:
        """Begin anew: nothing was counted."""
        await self._counts.reset()
