"""Run what is due in the background: leases that end, renewals, clean-ups.

One job per client sleeps until the earliest moment that it knows of. It begins with the first thing
that is expected, so a client that holds nothing has none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..world import Job, World

NEVER = float("inf")
RETRY_S = 0.25  # after an error
CLOSE_S = 2.0


class Timer:
    """Calls ``run`` when something is due; that does it, and returns when the next thing is."""

    def __init__(self, world: World, run: Callable[[], Awaitable[float]], label: str) -> None:
        self._world = world
        self._run = run
        self._label = label
        self._mutex = world.mutex()
        self._wake = world.signal()
        self._next = NEVER
        self._job: Job | None = None
        self._closing = False

    def expect(self, at: float) -> None:
        """Have ``run`` called at this moment, or earlier. What is due then is to be known before.

        Most calls come while the job sleeps until something earlier: they cost a comparison.
        """
        if self._job is None and not self._closing:
            with self._mutex:
                if self._job is None:
                    self._job = self._world.keep(self._loop, self._label)
        if at < self._next:
            self._wake.set()

    async def _loop(self) -> None:
        while not self._closing:
            self._next = NEVER  # what is expected while ``run`` looks may escape it: run once more
            try:
                soonest = await self._run()
            except Exception:  # a timer that died would leave undone all that is due later
                soonest = self._world.now() + RETRY_S
            self._next = soonest
            await self._world.wait(self._wake, None if soonest == NEVER else soonest)
            self._wake.clear()

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._wake.set()

    async def close(self) -> None:
        """End, and give what is being done a moment."""
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)
