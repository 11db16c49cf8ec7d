"""Run one call for all callers that need the same result at the same time.

It runs in the first caller, in either flavor. ``single_flight_aio.py`` runs it in its own task.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Hashable
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Protocol

from ..errors import FencelockError, Unavailable

LOOK_S = 1.0  # the caller that runs it may have been interrupted before it set the signals


class Waits(Protocol):
    """What ``SingleFlight`` needs of a World."""

    def mutex(self) -> AbstractContextManager[object]: ...

    def signal(self) -> Any: ...

    async def wait(self, signal: Any, deadline: float | None) -> bool: ...

    def limit(self) -> float: ...

    def now(self) -> float: ...


class _Flight:
    """One caller of ``do``. It lives as long as that runs the work or waits for it."""

    def __init__(self, limit: float, ended: Any) -> None:
        self.limit = limit
        """The moment by which the caller has to end."""
        self.followers: list[_Flight] = []
        """The callers that wait for it, if it runs the work."""
        self.ended = ended
        """Set when the caller that it waits for has ended, after ``error``."""
        self.error: FencelockError | None = None


class SingleFlight:
    """Calls under way, by key."""

    def __init__(self, world: Waits) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._flights: dict[Hashable, weakref.ref[_Flight]] = {}
        """Weakly: an exception of a signal handler may end a call at any bytecode."""

    async def do(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run the work, or wait for the caller that runs it under the same key.

        Its error is raised for every follower that has no more time than the caller that ran it.
        That caller may have been cancelled: a follower looks for the result and calls again.
        """
        own = _Flight(self._world.limit(), self._world.signal())
        try:
            leader = self._join(key, own)
            if leader() is own:
                await work()
                return
        except FencelockError as error:
            own.error = error
            raise
        finally:
            self._end(key, own)
        await self._follow(leader, own)

    def _join(self, key: Hashable, own: _Flight) -> weakref.ref[_Flight]:
        with self._mutex:
            leader = self._flights.get(key)
            flight = None if leader is None else leader()
            if leader is None or flight is None:
                leader = self._flights[key] = weakref.ref(own)
            else:
                flight.followers.append(own)
            return leader

    async def _follow(self, leader: weakref.ref[_Flight], follower: _Flight) -> None:
        world = self._world
        while not await world.wait(follower.ended, world.now() + LOOK_S):
            if world.now() >= world.limit():
                raise Unavailable("the caller's time is over; nothing was sent")
            if leader() is None:
                return
        if follower.error is not None:
            raise copy(follower.error) from follower.error

    def _end(self, key: Hashable, flight: _Flight) -> None:
        with self._mutex:
            leader = self._flights.get(key)
            if leader is not None and leader() is flight:
                del self._flights[key]
        for follower in flight.followers:
            if follower.limit <= flight.limit:
                follower.error = flight.error
            follower.ended.set()
