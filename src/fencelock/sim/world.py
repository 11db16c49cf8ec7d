"""The simulated world: its methods trap to a seeded scheduler with virtual time.

    with Simulation(seed) as simulation:
        world = simulation.world("one")
        simulation.start(protocol(world), world)
        simulation.run()

Each SimWorld is one process. It can be paused and can crash, and has its own clock, which may be
offset and run at another pace. One seed decides everything, so a seed reproduces a failure.
``scheduler.py`` documents the scheduler's rules.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Lock, RLock
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar, cast

from ..world import GRACE_S, NO_LIMIT, Adopted, Flavor, Job, Signal
from .scheduler import Endless, Scheduler
from .tasks import Cancelled, Flag, Process, Task

__all__ = ["Cancelled", "Endless", "SimWorld", "Simulation", "Task"]

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

WALL_S = 1_700_000_000  # what the wall clocks show when a simulation begins


@contextmanager
def no_collection() -> Generator[None]:
    """Turn garbage collection off, so that no finalizer of an earlier run runs within this one.

    Runs in several threads may overlap: the last one to end turns collection on again.
    """
    with _mutex:
        if not _running:
            _was_on.append(gc.isenabled())
        _running.append(True)
        gc.disable()
    try:
        yield
    finally:
        with _mutex:
            _running.pop()
            if not _running and _was_on.pop():
                gc.enable()


_mutex = Lock()
_running = list[bool]()
_was_on = list[bool]()


class Simulation(Scheduler):
    """A scheduler whose processes are worlds. Leaving it (``with``) unwinds unfinished tasks."""

    def world(self, name: str, *, ahead: float = 0.0, pace: float = 1.0) -> SimWorld:
        """Create a process. Its clock starts ``ahead`` seconds ahead of the true time."""
        return SimWorld(self, name, ahead, pace)

    def start(self, work: Coroutine[Any, Any, Any], world: SimWorld, label: str = "main") -> Task:
        """Run a coroutine as a task of a process."""
        return self.begin(work, world, label)

    def play(self, work: Coroutine[Any, Any, T], world: SimWorld) -> T:
        """Run a coroutine to its end and return its result."""
        task = self.start(work, world)
        self.run(until=task.ended)
        result: T = task.result
        return result

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SimWorld(Process):
    """The surroundings of one simulated process."""

    flavor: Flavor = "sim"
    cancels = True

    def __init__(self, simulation: Simulation, name: str, ahead: float, pace: float) -> None:
        super().__init__(name, simulation.ready)
        self.simulation = simulation
        self.wall_ahead = 0.0
        """Seconds by which its wall clock is ahead; set it to make that clock step."""
        self.edge: Any = None
        """This process's end of a simulated network, over which its engines connect."""
        self._ahead = ahead
        self._pace = pace
        self._draw = simulation.stream(f"process {name}")
        self._park = cast("Callable[..., CoroutineType[Any, Any, bool]]", simulation.park)
        self.now: Callable[[], float] = lambda: ahead + pace * simulation.now
        """The clock of this process. Bound once: it is read on every step."""

    def true_time(self, moment: float) -> float:
        """Return the simulation's time at which the clock of this process shows a moment."""
        when = (moment - self._ahead) / self._pace
        while self._ahead + self._pace * when < moment:  # rounding: a timer never comes early
            when = math.nextafter(when, math.inf)
        return when

    def admit(self) -> None:
        """Do nothing: a simulated world can be used anywhere in its simulation."""

    def unbound(self) -> None:
        """Do nothing: there are no signal handlers here, so every block ends itself."""

    def stalls(self) -> str:
        return ""

    def wall_us(self) -> int:
        return int((WALL_S + self.wall_ahead + self.simulation.now) * 1e6)

    def random(self) -> float:
        return self._draw()

    def owner(self) -> str:
        draw = self._draw
        number = 0
        for _ in range(4):
            number = number << 32 | int(draw() * 2**32)
        return f"{number:032x}"

    def who(self) -> Hashable:
        return self.simulation.current

    def facts(self) -> dict[str, str | int | float | bool | None]:
        task = self.simulation.current
        return {"host": self.name, "pid": 1, "task": task.label if task else ""}

    def generation(self) -> int:
        return 0

    def mutex(self) -> AbstractContextManager[object]:
        return RLock()  # one thread runs everything, so nothing waits for it; it costs least

    def signal(self) -> Signal:
        return Flag()

    def wait(self, signal: Signal, deadline: float | None) -> CoroutineType[Any, Any, bool]:
        # The trap itself, not a coroutine around it: each step passes every frame that awaits.
        task = self.simulation.current
        if task is not None and task.limit != NO_LIMIT:
            deadline = task.limit if deadline is None else min(deadline, task.limit)
        if deadline is None:
            return self._park(signal)
        when = (deadline - self._ahead) / self._pace
        if self._ahead + self._pace * when < deadline:
            when = self.true_time(deadline)
        return self._park(signal, when)

    def until(self, moment: float) -> AbstractContextManager[object]:
        task = self.simulation.current
        assert task is not None
        return _Until(task, moment)

    def limit(self) -> float:
        task = self.simulation.current
        return NO_LIMIT if task is None else task.limit

    async def gather(
        self,
        thunks: Sequence[Callable[[], Awaitable[T]]],
        deadline: float,
        enough: Callable[[Sequence[T | Exception | None]], bool] | None = None,
    ) -> list[T | Exception | None]:
        answers: list[T | Exception | None] = [None] * len(thunks)
        answered = self.signal()

        async def call(index: int, thunk: Callable[[], Awaitable[T]]) -> None:
            try:
                answers[index] = await thunk()
            except Exception as error:
                answers[index] = error
            answered.set()

        start = self.simulation.start
        calls = [start(call(n, thunk), self, f"call-{n}") for n, thunk in enumerate(thunks)]
        try:
            while not all(task.done for task in calls) and await self.wait(answered, deadline):
                answered.clear()
                if enough is not None and enough(answers):
                    break
        except Cancelled:
            for task in calls:
                task.cancel()
            raise
        return list(answers)

    async def shield(self, work: Coroutine[Any, Any, T], plain: bool = False) -> T:
        simulation = self.simulation
        caller, task = simulation.current, simulation.start(work, self, "shield")
        assert caller is not None
        task.limit, task.keeps_error = caller.limit, True
        give_up: float | None = None
        while not task.done and (give_up is None or simulation.now < give_up):
            try:
                await self._park(task.ended, give_up)
            except Cancelled:
                if simulation.is_over:
                    raise
                give_up = give_up or self.true_time(self.now() + GRACE_S)
        if give_up is not None:
            raise Cancelled
        if task.error is not None:
            raise task.error
        result: T = task.result
        return result

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], label: str) -> Job:
        return self.spawn(work(), label)

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        return _Spawned(self, self.simulation.start(work, self, label))

    def adopt(self, label: str) -> Adopted:
        return _Adopted(self.simulation)


class _Until:
    """A block in one task whose waits end at a moment at the latest."""

    def __init__(self, task: Task, moment: float) -> None:
        self._task = task
        self._moment = moment

    def __enter__(self) -> None:
        self._task.limit = self._moment

    def __exit__(self, *_: object) -> None:
        self._task.limit = NO_LIMIT


class _Spawned:
    """A job that runs as a task."""

    def __init__(self, world: SimWorld, task: Task) -> None:
        self._world = world
        self._task = task

    async def join(self, deadline: float | None) -> bool:
        if self._task is not self._world.simulation.current:
            await self._world.wait(self._task.ended, deadline)
        return self._task.done


class _Adopted:
    """An adopted client: each call runs between two traps, so that other tasks run in between."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        await self._simulation.turn()
        try:
            return method(*args, **kwargs)
        finally:
            await self._simulation.turn()

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""
