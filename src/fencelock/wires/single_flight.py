"""Run one call for all who need the same result at the same time.

It runs in the first caller, in either flavor. ``single_flight_aio.py`` runs it in its own task.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Protocol

from ..errors import FencelockError, Unavailable


class Waits(Protocol):
    """What ``SingleFlight`` needs of a World."""

    def mutex(self) -> AbstractContextManager[object]: ...

    def signal(self) -> Any: ...

    async def wait(self, signal: Any, deadline: float | None) -> bool: ...

    def limit(self) -> float: ...


class _Flight:
    def __init__(self, limit: float) -> None:
        self.followers: list[Any] = []
        """The signals of those who wait for it."""
        self.limit = limit
        """The moment by which the caller that runs it has to end."""
        self.error: FencelockError | None = None


class SingleFlight:
    """Calls under way, by key."""

    def __init__(self, world: Waits) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._flights: dict[Hashable, _Flight] = {}

    async def do(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Run the work, or wait for whoever runs it under the same key.

        Its error is raised for every follower that has no more time than the caller that ran it.
        That caller may have been cancelled: a follower looks for the result and calls again.
        """
        world = self._world
        own, signal = _Flight(world.limit()), world.signal()
        try:
            with self._mutex:
                flight = self._flights.setdefault(key, own)
                if flight is not own:
                    flight.followers.append(signal)
            if flight is own:
                await work()
                return
        except FencelockError as error:
            own.error = error
            raise
        finally:  # a signal handler may raise anywhere, here too
            try:
                self._end(key, own)
            finally:
                self._end(key, own)
        if not await world.wait(signal, None):
            raise Unavailable("the caller's time is over; nothing was sent")
        if flight.error is not None and world.limit() <= flight.limit:
            raise copy(flight.error) from flight.error

    def _end(self, key: Hashable, flight: _Flight) -> None:
        with self._mutex:
            if self._flights.get(key) is flight:
                del self._flights[key]
        for follower in flight.followers:
            follower.set()
