"""Run timed work in the background: leases that end, renewals, clean-ups.

One job per client sleeps until the earliest moment that it knows of. The first call of ``expect``
starts it, so a client that holds nothing has none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..world import Job, World

NEVER = float("inf")
RETRY_S = 0.25  # after an error
CLOSE_S = 2.0


class Timer:
    """Calls ``run`` when work is due; ``run`` does it, and returns when the next work is due."""

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
        """Have ``run`` called at this moment, or earlier. First make the work known to ``run``.

        Most calls come while the job sleeps until an earlier moment: they cost a comparison.
        """
        if self._job is None and not self._closing:
            with self._mutex:
                if self._job is None:
                    self._job = self._world.keep(self._loop, self._label)
        if at < self._next:
            self._wake.set()

    async def _loop(self) -> None:
        while not self._closing:
            self._next = NEVER  # ``run`` may miss what is added while it runs: run once more
            try:
                soonest = await self._run()
            except Exception:  # if the timer ended here, all later work would be left undone
                soonest = self._world.now() + RETRY_S
            self._next = soonest
            await self._world.wait(self._wake, None if soonest == NEVER else soonest)
            self._wake.clear()

    def close_nowait(self) -> None:
        """End the job, without waiting for it."""
        self._closing = True
        self._wake.set()

    async def close(self) -> None:
        """End the job, and wait a moment for work that is under way."""
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)
