"""Looks after what one client holds: a job in the background that sleeps until something is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...world import Job, World

NEVER = float("inf")


class Sentinel:
    """Runs ``look`` when it is due; that says when to look again."""

    def __init__(self, world: World, look: Callable[[], Awaitable[float]]) -> None:
        self._world = world
        self._look = look
        self._mutex = world.mutex()
        self._wake = world.signal()
        self._next = NEVER
        self._job: Job | None = None
        self._closing = False

    def expect(self, at: float) -> None:
        """Something will be due at this time. The first one brings the job to life."""
        with self._mutex:
            if self._job is None and not self._closing:
                self._job = self._world.spawn(self._watch_over(), "fencelock-sentinel")
        if at < self._next:
            self._wake.set()

    async def _watch_over(self) -> None:
        while not self._closing:
            self._next = NEVER  # what is expected while it looks may escape it: look once more
            self._next = await self._look()
            await self._world.wait(self._wake, None if self._next == NEVER else self._next)
            self._wake.clear()

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._wake.set()

    async def close(self, deadline: float) -> None:
        """End, and wait for a look that is under way."""
        self.close_nowait()
        if self._job is not None:
            await self._job.join(deadline)
