"""Contestants of the work "guards" that write with asyncio."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager

from bench.contestant import Spent
from bench.writing import Writing


class AioWriting(Writing):
    """Writes the same thing again and again, all in one loop."""

    @abstractmethod
    def aio_writer(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[object]]]:
        """Open the resource and give what writes once."""

    def writer(self) -> AbstractContextManager[Callable[[], object]]:
        raise NotImplementedError("who writes with asyncio is timed within a loop")

    def time_writes(self, counts: list[int]) -> list[Spent]:
        return asyncio.run(self._time_all(counts))

    async def _time_all(self, counts: list[int]) -> list[Spent]:
        async with self.aio_writer() as write:
            return [await _time(write, count) for count in counts]


async def _time(write: Callable[[], Awaitable[object]], count: int) -> Spent:
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        await write()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)
