"""Asyncio contestants: one event loop, as many tasks as a work wants, each with names of its own.

A contestant only says how to connect and how to take and leave a name again and again; that loop is
its own, so that nothing of the bench stands between two calls.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from bench.contestant import Contestant, Session, Spent

Pairs: TypeAlias = Callable[[str, int], Awaitable[None]]
"""Takes and leaves a name so many times."""


class AioContestant(Contestant):
    """One way to take turns among tasks."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[Pairs]:
        """Connect in the running loop."""

    def connect(self, *, traced: bool = False) -> Session:
        raise NotImplementedError

    def time_pairs(self, counts: list[int]) -> list[Spent]:
        return self.time_tasks(["pair"], counts, lambda: None)

    def time_tasks(
        self, names: Sequence[str], counts: list[int], observe: Callable[[], None]
    ) -> list[Spent]:
        """Have a task for each name take and leave it; one figure for each batch.

        `observe` is called before the connections are closed.
        """
        return asyncio.run(self._time_tasks(names, counts, observe))

    async def _time_tasks(
        self, names: Sequence[str], counts: list[int], observe: Callable[[], None]
    ) -> list[Spent]:
        async with self.opened() as pairs:
            spent = [await _time(pairs, names, count) for count in counts]
            observe()
            return spent


async def _time(pairs: Pairs, names: Sequence[str], count: int) -> Spent:
    cpu, wall = time.process_time(), time.perf_counter()
    if len(names) == 1:
        await pairs(names[0], count)
    else:
        await asyncio.gather(*[pairs(name, count) for name in names])
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)
