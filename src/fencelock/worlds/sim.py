"""The simulated world: one seeded scheduler and one virtual clock for the tasks of many simulated processes.

* One seed decides everything.  All chance comes from ``random.Random(seed).random()``, whose numbers are the same
  on every Python, and nothing is ever ordered by a hash or an address.
* A step runs one task from one trap to the next; which of the ready tasks that is, is drawn.  A trap is the one
  place where a task can be interrupted, cancelled, paused or crashed: every verb of World that may wait is one.
* Time stands still while a task is ready, then jumps to the next timer.  A process may see it through a clock that
  is set differently and runs at another pace.
* Nothing runs for ever: too many steps, or too much time, is an error.

Whoever adds a network or a model of a server needs no more than ``at()`` for what is under way, a world per node,
and ``turn()`` where a node can be interrupted.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import coroutine
from typing import Any, ParamSpec, TypeVar

from ..world import Adopted, Job, Signal

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

WALL_S = 1_700_000_000  # what the wall clocks show when a simulation begins
_TRAP = object()  # what a task that waits for the scheduler yields, and nothing else does


class Cancelled(BaseException):
    """The task was cancelled."""


class Endless(RuntimeError):
    """The simulation did not come to its end within its bounds."""


class Timer:
    """Something that will be done at its moment, unless it is cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.action: Callable[[], object] | None = action

    def cancel(self) -> None:
        self.action = None


class SimSignal:
    """A flag that wakes the tasks that wait for it."""

    __slots__ = ("_flag", "waiters")

    def __init__(self) -> None:
        self._flag = False
        self.waiters: dict[int, Task] = {}

    def set(self) -> None:
        self._flag = True
        waiters, self.waiters = self.waiters, {}
        for ticket, task in waiters.items():
            task.wake(ticket, True)

    def clear(self) -> None:
        self._flag = False

    def is_set(self) -> bool:
        return self._flag


class Task:
    """One coroutine of one simulated process; also the Job that ``spawn`` returns."""

    def __init__(
        self, simulation: Simulation, world: SimWorld, work: Coroutine[Any, Any, Any], label: str
    ) -> None:
        self.world = world
        self.label = label
        self.done = False
        self.cancelled = False
        """Whether it was a cancellation that ended it."""
        self.result: Any = None
        self.shields = 0
        self.cancelling = False
        self._simulation = simulation
        self._work = work
        self._ended = SimSignal()
        self._ticket: int | None = None  # of the trap it waits in; None while it is ready or runs
        self._news = False

    def cancel(self) -> None:
        """Have Cancelled raised in it at its next step, or when its shield ends."""
        if not self.done:
            self.cancelling = True
            if self._ticket is not None and not self.shields:
                self.wake(self._ticket, False)

    async def join(self, deadline: float | None) -> bool:
        if self is self._simulation.current:
            return False
        await self.world.wait(self._ended, deadline)
        return self.done

    def park(self, ticket: int) -> None:
        """It waits from now on, until it is woken by this ticket."""
        self._ticket = ticket

    def wake(self, ticket: int, news: bool) -> None:
        """Make it ready, with the answer to its wait; a ticket that was used before does nothing."""
        if self._ticket == ticket:
            self._ticket, self._news = None, news
            self._simulation.ready.append(self)

    def step(self) -> object:
        """Run to the next trap and return what was yielded there; _TRAP too when it has ended."""
        try:
            if self.cancelling and not self.shields:
                self.cancelling = False
                return self._work.throw(Cancelled())
            return self._work.send(self._news)
        except StopIteration as stop:
            self.result = stop.value
        except Cancelled:
            self.cancelled = True
        self.done = True
        self._ended.set()
        return _TRAP

    def discard(self) -> None:
        """Unwind a task that will never run again, when nobody looks any more."""
        try:
            self._work.close()
        except (Cancelled, Exception):
            pass  # it would have waited while it cleaned up


class Simulation:
    """Runs tasks of simulated processes.  Leave it (``with``) to unwind those that never ended."""

    def __init__(
        self, seed: int, *, steps_max: int = 1_000_000, time_max_s: float = 86_400.0
    ) -> None:
        self.seed = seed
        self.steps_max = steps_max
        self.time_max_s = time_max_s
        self.random = random.Random(seed).random
        self.now = 0.0
        self.steps = 0
        self.trace: list[tuple[object, ...]] = []
        """What happened: the moment and the task of every step, and whatever was noted."""
        self.current: Task | None = None
        self.ready: list[Task] = []
        self._tasks: dict[Task, None] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._over = False

    def world(self, name: str, *, offset_s: float = 0.0, pace: float = 1.0) -> SimWorld:
        """A new process, with a clock of its own: set ahead by the offset, running at the pace."""
        return SimWorld(self, name, offset_s, pace)

    def start(self, work: Coroutine[Any, Any, Any], world: SimWorld, label: str = "main") -> Task:
        """Run a coroutine as a task of a process."""
        task = Task(self, world, work, f"{world.name}/{label}#{self._next()}")
        self._tasks[task] = None
        task.park(0)
        task.wake(0, True)
        return task

    def at(self, when: float, action: Callable[[], object]) -> Timer:
        """Do something at a moment: deliver a message, say."""
        timer = Timer(action)
        heapq.heappush(self._timers, (when, self._next(), timer))
        return timer

    def note(self, *words: object) -> None:
        """Put something into the trace: values whose repr() is the same in every process."""
        self.trace.append((self.now, *words))

    def digest(self) -> str:
        """A short name for all that happened: equal exactly for equal traces."""
        text = "\n".join(map(repr, self.trace))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(self, until: Callable[[], bool] | float | None = None) -> None:
        """Run until the condition holds or the moment comes; without either, until nothing is left to run."""
        if isinstance(until, float):
            moment = until
            self.at(moment, bool)
            until = lambda: self.now >= moment  # noqa: E731  # two kinds of end become one
        while until is None or not until():
            if self.ready:
                self._step(self._draw())
            elif not self._advance():
                if until is None:
                    return
                raise self._endless("nothing is left to run, and what was waited for did not come")

    def play(self, work: Coroutine[Any, Any, T], world: SimWorld | None = None) -> T:
        """Run a coroutine to its end and return its result."""
        task = self.start(work, world or self.world("main"))
        self.run(until=lambda: task.done)
        result: T = task.result
        return result

    @coroutine
    def park(
        self, signal: SimSignal | None = None, when: float | None = None
    ) -> Generator[object, bool, bool]:
        """The trap: wait for a signal (True) or a moment (False); with neither, only for one's turn."""
        task = self.current
        if self._over or task is None:
            raise Cancelled("the simulation is over")
        ticket, timer = self._next(), None
        task.park(ticket)
        if signal is None or signal.is_set():
            task.wake(ticket, True)
        elif when is not None and when <= self.now:
            task.wake(ticket, False)
        else:
            signal.waiters[ticket] = task
            if when is not None:
                timer = self.at(when, partial(task.wake, ticket, False))
        try:
            return (yield _TRAP)
        finally:
            if signal is not None:
                signal.waiters.pop(ticket, None)
            if timer is not None:
                timer.cancel()

    async def turn(self) -> None:
        """Let others run, for no time at all."""
        await self.park()

    def close(self) -> None:
        """End it: tasks that have not ended are unwound, and can wait for nothing while they are."""
        self._over = True
        while self._tasks:
            self.current, _ = self._tasks.popitem()
            self.current.discard()
        self.current = None

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _draw(self) -> Task:
        place = int(self.random() * len(self.ready))
        task, last = self.ready[place], self.ready.pop()
        if task is not last:
            self.ready[place] = last
        return task

    def _step(self, task: Task) -> None:
        if task.world.is_halted:
            task.world.halted.append(task)
            return
        self.steps += 1
        if self.steps > self.steps_max:
            raise self._endless(f"{task.label} is still busy")
        self.trace.append((self.now, task.label))
        self.current = task
        try:
            trap = task.step()
        except BaseException as error:
            del self._tasks[task]
            error.add_note(f"in {task.label}: {self._place()}")
            raise
        finally:
            self.current = None
        if task.done:
            del self._tasks[task]
        if trap is not _TRAP:
            raise RuntimeError(f"{task.label} suspended on {trap!r}, which is no verb of World")

    def _advance(self) -> bool:
        """Jump to the next timer and do all that is due then; False when there is none."""
        timers, found = self._timers, False
        while timers and (not found or timers[0][0] <= self.now):
            when, _, timer = heapq.heappop(timers)
            if timer.action is None:
                continue
            found = True
            self.now = max(self.now, when)
            if self.now > self.time_max_s:
                raise self._endless("time is up")
            timer.action()
        return found

    def _endless(self, why: str) -> Endless:
        return Endless(f"{why}: {self._place()}")

    def _place(self) -> str:
        return f"seed {self.seed}, step {self.steps}, {self.now:.6f} s"


class SimWorld:
    """The surroundings of one simulated process, which can be paused and can crash."""

    def __init__(self, simulation: Simulation, name: str, offset_s: float, pace: float) -> None:
        self.simulation = simulation
        self.name = name
        self.wall_ahead_s = 0.0
        """Set it to step the wall clock of this process."""
        self.is_halted = False
        self.is_crashed = False
        self.halted: list[Task] = []
        """Tasks that are ready while the process is not."""
        self._offset_s = offset_s
        self._pace = pace

    def pause(self) -> None:
        """Freeze the process: time goes on, its tasks do not."""
        self.is_halted = True

    def resume(self) -> None:
        """Let a paused process go on."""
        if not self.is_crashed:
            self.is_halted = False
            self.simulation.ready += self.halted
            self.halted = []

    def crash(self) -> None:
        """Stop the process for ever; nothing is cleaned up."""
        self.is_halted = self.is_crashed = True

    def true_time(self, moment: float) -> float:
        """The simulation's time at which this process's clock shows a moment, or has just passed it."""
        when = (moment - self._offset_s) / self._pace
        while self._offset_s + self._pace * when < moment:  # rounding: a timer never comes early
            when = math.nextafter(when, math.inf)
        return when

    def admit(self) -> None:
        """Everywhere in the simulation is right."""

    def now(self) -> float:
        return self._offset_s + self._pace * self.simulation.now

    def wall_us(self) -> int:
        return int((WALL_S + self.wall_ahead_s + self.simulation.now) * 1e6)

    def random(self) -> float:
        return self.simulation.random()

    def owner(self) -> str:
        return "".join(f"{int(self.random() * 2**32):08x}" for _ in range(4))

    def who(self) -> Hashable:
        return self.simulation.current

    def facts(self) -> dict[str, str | int | float | bool | None]:
        task = self.simulation.current
        return {"host": "simulated", "process": self.name, "task": task.label if task else "none"}

    def generation(self) -> int:
        return 0

    def mutex(self) -> AbstractContextManager[object]:
        return nullcontext()  # there is no trap between its ends

    def signal(self) -> Signal:
        return SimSignal()

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        assert isinstance(signal, SimSignal)
        when = None if deadline is None else self.true_time(deadline)
        return await self.simulation.park(signal, when)

    async def gather(
        self,
        thunks: Sequence[Callable[[], Awaitable[T]]],
        deadline: float,
        enough: Callable[[Sequence[T | Exception | None]], bool] | None = None,
    ) -> list[T | Exception | None]:
        answers: list[T | Exception | None] = [None] * len(thunks)
        answered = self.signal()

        async def call(place: int, thunk: Callable[[], Awaitable[T]]) -> None:
            try:
                answers[place] = await thunk()
            except Exception as error:
                answers[place] = error
            answered.set()

        calls = [self._start(call(n, thunk), f"call-{n}") for n, thunk in enumerate(thunks)]
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

    async def shield(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.simulation.current
        assert task is not None
        task.shields += 1
        try:
            return await work
        finally:
            task.shields -= 1
            if task.cancelling and not task.shields:
                task.cancelling = False
                raise Cancelled

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        return self._start(work, label)

    def adopt(self, label: str) -> Adopted:
        return _Adopted(self.simulation)

    def _start(self, work: Coroutine[Any, Any, Any], label: str) -> Task:
        return self.simulation.start(work, self, label)


class _Adopted:
    """An adopted client: a call is made between two traps, so that those of other processes come between."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        await self._simulation.turn()
        try:
            return method(*args, **kwargs)
        finally:
            await self._simulation.turn()

    async def close(self) -> None:
        """Nothing to let go of."""
