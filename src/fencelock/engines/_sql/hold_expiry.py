"""End the holds that were not renewed, in the background.

A row in a table is over when its time is. A session's lock is held until it is unlocked, so a
client itself unlocks what was not renewed in time; for a client that cannot, the server ends the
session.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

from ...world import World, snapshot
from ..timer import NEVER, Timer
from .hold import Hold

H = TypeVar("H", bound=Hold[Any])

LATE_S = 0.05  # so that the holder's own clock tells it of the loss first


class HoldExpiry(Generic[H]):
    """The timer of one client that ends its holds, once there are any."""

    def __init__(
        self,
        world: World,
        holds: Mapping[str, H],
        end: Callable[[str, H], Awaitable[object]],
        chores: Callable[[float], Awaitable[float]] | None = None,
    ) -> None:
        self._world = world
        self._holds = holds
        self._end = end
        self._chores = chores
        """Other periodic work; returns the time of its next call."""
        timer = Timer(world, self._run, "fencelock-expiry")
        self.expect, self.close_nowait, self.close = timer.expect, timer.close_nowait, timer.close

    async def _run(self) -> float:
        now = self._world.now()
        for owner, hold in snapshot(self._holds):
            if hold.until + LATE_S <= now:
                await self._end(owner, hold)
        again = await self._chores(now) if self._chores is not None else NEVER
        # A hold that could not be ended is tried again after a moment, not without a pause.
        ends = [max(hold.until, now) + LATE_S for hold in list(self._holds.values())]
        return min([*ends, again])
