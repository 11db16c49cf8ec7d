"""The recipes for asyncio programs: the same names and signatures as ``sync.py``, awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from .._client.lock_options import Template
from ..errors import FencelockError, OutcomeUnknown, Unavailable
from ..model import Holding
from .barrier import slots_name
from .election import is_succeeded
from .facade import BarrierBase, ElectionBase, LatchBase, OnceBase
from .once import Turn
from .several_aio import Leases, Locks

if TYPE_CHECKING:
    from ..aio import Lease, Lock

__all__ = ["Barrier", "Election", "Latch", "Leases", "Locks", "Once", "slots_name"]

P = ParamSpec("P")
R = TypeVar("R")


class Election(ElectionBase):
    """A description of an election: a program that campaigns and wins leads, for a term.

    A term is a lease: it is renewed while the leader lives, and its fence is the epoch that guards
    check.
    """

    _lock: Lock

    async def campaign(self, *, timeout: float | Literal["default"] | None = "default") -> Lease:
        """Wait until we lead and return the term, or raise AcquireTimeout.

        Leave the term (``async with term:``), call its ``release()`` or ``resign()``.
        """
        return await self._election.won(await self._lock.acquire(timeout=timeout))

    async def leader(self) -> Holding | None:
        """Return the present leader, or None."""
        return await self._election.leader()

    def observe(self) -> AsyncIterator[Holding | None]:
        """Iterate over the leaders: the present one, or None, and then every change.

        It waits for changes, which are pushed where the engine has push. Changes that come faster
        than they are read are one change. A long outage of the engine is raised.
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
        """Release the term that was last won here: True when this ended it."""
        return await self._election.resign()

    async def run(self, work: Callable[[Lease], Awaitable[R]]) -> R:
        """Lead and work: campaign, call ``work(term)``, and campaign again when the term is lost.

        When the work returns, resign and return its value; when it raises, resign and raise that.
        A thread is not interrupted: work looks at ``term.lost`` or ``term.check()``, and ends.
        What it returns after its term was lost is dropped, and LeaseLost or StaleFence that it
        raises then is not raised here. An outage of the engine is waited out.
        """
        await self._election.board.core.open()  # a wrong address is reported at once
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
        """Campaign until a term is won, through outages of the engine."""
        while True:
            try:
                return await self.campaign()
            except (Unavailable, OutcomeUnknown) as error:
                await self._election.outlast(error)

    async def __aenter__(self) -> Lease:
        term = await self._lock.__aenter__()
        try:
            return await self._election.won(term)
        except BaseException as error:  # __aexit__ will not be called
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


class Once(OnceBase["Lease"]):
    """A description of work that is done once in every window of time, by one of many.

    ``async with once as turn:`` gives the lease under which to work, or None where the window is to
    be skipped: write ``if turn:`` around the work. A decorated function returns None when it is
    skipped, and gets the lease in its parameter ``lease`` if it has one.

    Work that ends well is remembered for its window; work that raises is not, and another may do
    it. A runner that crashes is replaced by one that waits, once its ttl is over: then work is done
    at least once, and not exactly once.
    """

    async def __aenter__(self) -> Lease | None:
        turn: Turn[Lease] = await self._schedule.begin()
        self._turns.enter(self._cores.here().world.who(), turn)
        if turn.lease is None:
            return None
        try:
            return await turn.lease.__aenter__()
        except BaseException as error:  # it is over already: __aexit__ will not be called
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
            template.name(args, kwargs)  # wrong arguments are reported before the lock is taken
            async with self as turn:
                if turn is None:
                    return None
                result = template.awaitable(template.call(turn, args, kwargs))
                value: R = template.finished(await result)
                return value

        template.wrap(call)
        return call


class Barrier(BarrierBase):
    """A description of a barrier, at which a number of parties wait for each other."""

    async def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties have come, or raise AcquireTimeout.

        The result is a number from 0 to parties - 1, different for each of the parties that pass
        together.
        """
        return await self._rendezvous.wait(timeout)


class Latch(LatchBase):
    """A description of a latch, which opens once it was counted down a number of times."""

    async def count_down(self, *, by: str | None = None) -> int:
        """Count down once, and return how many counts are missing. An open latch stays open.

        With ``by``, each such text counts once, however often this is called with it.
        """
        return await self._counts.count_down(by)

    async def remaining(self) -> int:
        """Return how many counts are missing."""
        return await self._counts.remaining()

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until the latch is open, or raise AcquireTimeout."""
        await self._counts.wait(timeout)

    async def reset(self) -> None:
        """Forget all counts: the latch is closed again."""
        await self._counts.reset()
