"""One does it for all who want the same at the same time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from copy import copy
from typing import Any

from ...errors import FencelockError
from ...world import Signal, World


class _Flight:
    def __init__(self) -> None:
        self.followers: list[Signal] = []
        self.error: FencelockError | None = None


class Once:
    """Work under way, by what it is about."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._flights: dict[Hashable, _Flight] = {}

    async def do(self, about: Hashable, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Do it, or wait for whoever does; its error is everybody's.

        It may have been given up by its task: look for what it was to bring, and try again.
        """
        own, signal = _Flight(), self._world.signal()
        with self._mutex:
            flight = self._flights.setdefault(about, own)
            if flight is not own:
                flight.followers.append(signal)
        if flight is not own:
            await self._world.wait(signal, None)
            if flight.error is not None:
                raise copy(flight.error) from flight.error
            return
        try:
            await work()
        except FencelockError as error:
            own.error = error
            raise
        finally:
            with self._mutex:
                del self._flights[about]
            for follower in own.followers:
                follower.set()
