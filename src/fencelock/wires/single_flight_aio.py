"""Run one asyncio task for all callers that need the same result at the same time.

The task goes on when a caller that waits for it is cancelled, which suits making connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class AioSingleFlight(Generic[T]):
    """Tasks under way, by key; all callers that need its result share a task."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._tasks: dict[Hashable, asyncio.Task[T]] = {}

    def join(
        self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> tuple[asyncio.Task[T], bool]:
        """Return the task under this key, and whether this call began it.

        Wait for it by ``asyncio.wait``: the cancellation of a waiter must not reach the task.
        """
        task = self._tasks.get(key)
        if task is not None:
            return task, False
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work(), name=self._label)
        task.add_done_callback(lambda done: self._end(key, done))
        return task, True

    def _end(self, key: Hashable, task: asyncio.Task[T]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved here: all waiters may have been cancelled

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks.values():
            task.cancel()

    async def join_all(self) -> None:
        """Wait until all tasks have ended."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
