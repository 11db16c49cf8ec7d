"""The manual clock of asyncio clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Hashable
from contextlib import contextmanager
from typing import Any

from ... import aio
from ...engines.memory import Store
from ...world import NO_LIMIT, Job, Signal
from ...worlds.aio import AioWorld
from ..faulty import Faults
from .core import ManualClockCore
from .timeline import REAL_TIMEOUT_S, Flag, Sleeper, Timeline, ends_by, seconds

BUSY_WAIT_S = 0.001
TURNS = 5  # iterations of the loop without work after which it counts as idle


class AioTimeline(Timeline):
    """A timeline whose sleepers are tasks."""

    def __init__(self, real_timeout: float = REAL_TIMEOUT_S, flows: bool = False) -> None:
        super().__init__(real_timeout, flows)
        self._changed = asyncio.Event()

    def on_change(self) -> None:
        self._changed.set()

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        """Sleep in the running task."""
        who = asyncio.current_task()
        roused = asyncio.Event()
        sleeper = self.sleep(who, signal, deadline, roused.set)
        if sleeper is None:
            await asyncio.sleep(0)  # a loop around an overdue wait must not starve the others
            return signal.is_set()
        limit = None if self.is_job(who) else self.real_timeout
        try:
            if self.flows and limit is not None:
                await self._flow(sleeper, who)
            while self.sleeps(sleeper):
                moves = self.moves
                try:
                    await asyncio.wait_for(roused.wait(), limit)
                except TimeoutError:
                    if self.moves == moves:
                        raise self.unmoved() from None
        finally:
            if self.sleeps(sleeper):  # an error ends the wait while the sleeper is in the list
                self.wake(sleeper)
        return signal.is_set()

    async def _flow(self, sleeper: Sleeper, who: Hashable) -> None:
        """Let time pass whenever no worker is busy, until this sleeper wakes."""
        moves, left = self.moves, self.real_timeout
        while self.sleeps(sleeper) and left > 0:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if self.sleeps(sleeper) and not self.pass_time(who):
                await asyncio.sleep(BUSY_WAIT_S)
                left -= BUSY_WAIT_S
            if self.moves != moves:
                moves, left = self.moves, self.real_timeout

    async def settle(self, besides: object) -> None:
        """Wait until all workers but one sleep or are done, and the loop is idle."""
        quiet = 0
        try:
            async with asyncio.timeout(self.real_timeout):
                while quiet < TURNS:
                    if self.busy(besides):
                        quiet = 0
                        self._changed.clear()
                        await self._changed.wait()
                    else:
                        quiet += 1
                        await asyncio.sleep(0)
        except TimeoutError:
            raise self.unsettled(besides) from None

    async def jump(self, moment: float, besides: object) -> None:
        """Set the time, and wake the sleepers whose deadlines have passed, one after the other."""
        await self.settle(besides)
        self.move(moment)
        while self.wake_first():
            await self.settle(besides)


class ManualAioWorld(AioWorld):
    """The world of asyncio, on a clock that is moved by hand."""

    def __init__(self, timeline: AioTimeline) -> None:
        super().__init__()
        self.timeline = timeline
        self.now = timeline.now
        self._limit_of: dict[asyncio.Task[Any] | None, float] = {}

    def wall_us(self) -> int:
        return int(self.now() * 1e6)

    def random(self) -> float:
        return 0.5

    def signal(self) -> Signal:
        return Flag(self.timeline)

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        return await self.timeline.wait(signal, ends_by(deadline, self.limit()))

    @contextmanager
    def until(self, moment: float) -> Generator[None, None, None]:
        """Limit the waits of a block as under threads: a timer of the loop would use real time."""
        self._limit_of[asyncio.current_task()] = moment
        try:
            yield
        finally:
            del self._limit_of[asyncio.current_task()]

    def limit(self) -> float:
        return self._limit_of.get(asyncio.current_task(), NO_LIMIT)

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], label: str) -> Job:
        return self.spawn(work(), label)

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        task = self._start(work, label)
        self.timeline.begin(task, label, is_job=True)
        task.add_done_callback(self.timeline.end)
        return _Task(task, self.timeline.real_timeout)


class _Task:
    """A job that runs as a task; a move of the clock waits for it."""

    def __init__(self, task: asyncio.Task[None], real_timeout: float) -> None:
        self._task = task
        self._real_timeout = real_timeout

    async def join(self, deadline: float | None) -> bool:
        if self._task is asyncio.current_task():
            return False
        # In real time: the clock stands still meanwhile.
        await asyncio.wait({self._task}, timeout=self._real_timeout)
        return self._task.done()


class AioClock:
    """The clock of a ``testing.aio_client()``. It stands still until it is moved.

    A body whose lease is lost is cancelled where it waits, here as everywhere. If it waits in one
    of these methods, the move is completed first. A clock that ``flows`` also moves by itself while
    a call waits for it.
    """

    def __init__(self, real_timeout: float = REAL_TIMEOUT_S, *, flows: bool = False) -> None:
        self._timeline = AioTimeline(real_timeout, flows)
        self._world = ManualAioWorld(self._timeline)
        self._store = Store(self._world)
        self._store.wall_us = lambda: 0  # so fences are 1, 2, 3, …

    def connect(self, *, faults: Faults | None = None) -> aio.Client:
        """Return another client of the same engine, on the same clock: a rival, as in another
        process.

        With ``faults``, the switches of ``testing.faulty`` are applied between it and the engine.
        """
        world, who = ManualAioWorld(self._timeline), asyncio.current_task
        core = ManualClockCore(world, self._store, aio.Lease, self._timeline, who, faults)
        return aio.Client(core)

    def now(self) -> float:
        """Return the time of this clock, in seconds."""
        return self._timeline.now()

    async def advance(self, by: float) -> None:
        """Jump ahead, as if the process had been frozen meanwhile: no lease was renewed in between.

        When it returns, leases that ran out are lost, their ``on_lost`` has been called, and
        waiters whose time has come have the lock or have given up.
        """
        moment = self.now() + seconds(by)
        await self._world.shield(self._timeline.jump(moment, asyncio.current_task()))

    async def run(self, by: float) -> None:
        """Let time pass as it does in a program that runs: leases are renewed when they are due."""
        end = self.now() + seconds(by)
        await self._world.shield(self._run(end, asyncio.current_task()))

    async def _run(self, end: float, besides: object) -> None:
        await self._timeline.settle(besides)
        while (soonest := self._timeline.soonest()) is not None and soonest < end:
            await self._timeline.jump(soonest, besides)
        await self._timeline.jump(end, besides)

    async def settle(self) -> None:
        """Wait until all current work is done; no time passes."""
        await self._world.shield(self._timeline.settle(asyncio.current_task()))

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait, in real time, until a condition holds: that a task of yours waits, say.

        No time passes on this clock.
        """
        for _ in range(int(self._timeline.real_timeout * 1000)):
            if condition():
                break
            await asyncio.sleep(0.001)
        else:
            raise RuntimeError(f"it was not so within {self._timeline.real_timeout:g} s")
        await self.settle()
