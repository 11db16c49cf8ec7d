"""The recipes for ordinary blocking programs. ``aio.py`` has the same names and signatures for
asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from .._client.lock_options import Template
from ..errors import FencelockError, OutcomeUnknown, Unavailable
from ..model import Holding
from ..worlds.threads import drive
from .barrier import slots_name
from .election import is_succeeded
from .facade import BarrierBase, ElectionBase, LatchBase, OnceBase
from .once import Turn
from .several_sync import Leases, Locks

if TYPE_CHECKING:
    from ..sync import Lease, Lock

__all__ = ["Barrier", "Election", "Latch", "Leases", "Locks", "Once", "slots_name"]

P = ParamSpec("P")
R = TypeVar("R")


class Election(ElectionBase):
    """A description of an election: a program that campaigns and wins leads, for a term.

    A term is a lease: it is renewed while the leader lives, and its fence is the epoch that guards
    check.
    """

    _lock: Lock

    def campaign(self, *, timeout: float | Literal["default"] | None = "default") -> Lease:
        """Wait until we lead and return the term, or raise AcquireTimeout.

        Leave the term (``with term:``), call its ``release()`` or ``resign()``.
        """
        return drive(self._election.won(self._lock.acquire(timeout=timeout)))

    def leader(self) -> Holding | None:
        """Return the present leader, or None."""
        return drive(self._election.leader())

    def observe(self) -> Iterator[Holding | None]:
        """Iterate over the leaders: the present one, or None, and then every change.

        It waits for changes, which are pushed where the engine has push. Changes that come faster
        than they are read are one change. A long outage of the engine is raised.
        """
        return self._changes()

    def _changes(self) -> Generator[Holding | None, None, None]:
        watch = self._election.watch()
        try:
            drive(watch.begin())
            while True:
                yield drive(watch.next())
        finally:
            drive(watch.end())

    def resign(self) -> bool:
        """Release the term that was last won here: True when this ended it."""
        return drive(self._election.resign())

    def run(self, work: Callable[[Lease], R]) -> R:
        """Lead and work: campaign, call ``work(term)``, and campaign again when the term is lost.

        When the work returns, resign and return its value; when it raises, resign and raise that.
        A thread is not interrupted: work looks at ``term.lost`` or ``term.check()``, and ends.
        What it returns after its term was lost is dropped, and LeaseLost or StaleFence that it
        raises then is not raised here. An outage of the engine is waited out.
        """
        drive(self._election.board.core.open())  # a wrong address is reported at once
        while True:
            term = self._elected()
            try:
                with term:
                    return work(term)
            except FencelockError as error:
                if not is_succeeded(term, error):
                    raise
            finally:
                self._announce()

    def _announce(self) -> None:
        """Send observers the hint to look who leads."""
        drive(self._election.board.announce())

    def _elected(self) -> Lease:
        """Campaign until a term is won, through outages of the engine."""
        while True:
            try:
                return self.campaign()
            except (Unavailable, OutcomeUnknown) as error:
                drive(self._election.outlast(error))

    def __enter__(self) -> Lease:
        term = self._lock.__enter__()
        try:
            return drive(self._election.won(term))
        except BaseException as error:  # of a signal handler: __exit__ will not be called
            self._lock.__exit__(type(error), error, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._lock.__exit__(kind, error, traceback)
        finally:
            self._announce()


class Once(OnceBase["Lease"]):
    """A description of work that is done once in every window of time, by one of many.

    ``with once as turn:`` gives the lease under which to work, or None where the window is to be
    skipped: write ``if turn:`` around the work. A decorated function returns None when it is
    skipped, and gets the lease in its parameter ``lease`` if it has one.

    Work that ends well is remembered for its window; work that raises is not, and another may do
    it. A runner that crashes is replaced by one that waits, once its ttl is over: then work is done
    at least once, and not exactly once.
    """

    def __enter__(self) -> Lease | None:
        turn: Turn[Lease] = drive(self._schedule.begin())
        try:
            self._turns.enter(self._cores.here().world.who(), turn)
        except BaseException as error:  # of a signal handler: __exit__ will not be called
            self._turns.remove(turn)
            if turn.lease is not None:
                turn.lease.__exit__(type(error), error, None)
            raise
        return turn.lease

    def __exit__(
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
            drive(self._schedule.end(turn, error))
        except BaseException as failure:
            turn.lease.__exit__(type(failure), failure, failure.__traceback__)
            raise
        turn.lease.__exit__(kind, error, traceback)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R | None]:
        template = Template("once", function, asynchronous=False, decorator="once")

        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            template.name(args, kwargs)  # wrong arguments are reported before the lock is taken
            with self as turn:
                if turn is None:
                    return None
                value: R = template.finished(template.call(turn, args, kwargs))
                return value

        template.wrap(call)
        return call


class Barrier(BarrierBase):
    """A description of a barrier, at which a number of parties wait for each other."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties have come, or raise AcquireTimeout.

        The result is a number from 0 to parties - 1, different for each of the parties that pass
        together.
        """
        return drive(self._rendezvous.wait(timeout))


class Latch(LatchBase):
    """A description of a latch, which opens once it was counted down a number of times."""

    def count_down(self, *, by: str | None = None) -> int:
        """Count down once, and return how many counts are missing. An open latch stays open.

        With ``by``, each such text counts once, however often this is called with it.
        """
        return drive(self._counts.count_down(by))

    def remaining(self) -> int:
        """Return how many counts are missing."""
        return drive(self._counts.remaining())

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the latch is open, or raise AcquireTimeout."""
        drive(self._counts.wait(timeout))

    def reset(self) -> None:
        """Forget all counts: the latch is closed again."""
        drive(self._counts.reset())
