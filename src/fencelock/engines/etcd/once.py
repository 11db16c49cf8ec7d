"""One does it for all who want the same at the same time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from copy import copy
from typing import Any

from ...errors import FencelockError, Unavailable
from ...world import Signal, World


class _Flight:
    def __init__(self, limit: float) -> None:
        self.followers: list[Signal] = []
        self.limit = limit
        """Until when whoever does it may take for it."""
        self.error: FencelockError | None = None


class Once:
    """Work under way, by what it is about."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._flights: dict[Hashable, _Flight] = {}

    async def do(self, about: Hashable, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Do it, or wait for whoever does; its error is everybody's who has no more time than it.

        It may have been given up by its task: look for what it was to bring, and try again.
        """
        world = self._world
        own, signal = _Flight(world.limit()), world.signal()
        try:
            with self._mutex:
                flight = self._flights.setdefault(about, own)
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
                self._end(about, own)
            finally:
                self._end(about, own)
        if not await world.wait(signal, None):
            raise Unavailable("the caller's time is over; nothing was asked for")
        if flight.error is not None and world.limit() <= flight.limit:
            raise copy(flight.error) from flight.error

    def _end(self, about: Hashable, flight: _Flight) -> None:
        with self._mutex:
            if self._flights.get(about) is flight:
                del self._flights[about]
        for follower in flight.followers:
            follower.set()
