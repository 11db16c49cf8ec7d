"""The seeded scheduler under the simulated world: it draws the next task and keeps virtual time.

* One seed decides everything. All chance comes from ``random.Random(seed).random()``, whose
  numbers are the same on every Python, and nothing is ever ordered by a hash or an address.
* A step runs one task from one trap to the next, or runs one timer, such as the delivery of a
  message. Which of the ready tasks runs is drawn. A task is interrupted, cancelled, paused or
  crashed only in a trap.
* With ``draws="keyed"`` each consumer of random numbers has a stream of its own, named after it (a
  process, a direction of the network), and the ready tasks run in a fixed order: by the name of
  their process, and within it in the order in which they became ready. So a change to one process
  leaves another as it was, unless the two interact.
* Time stands still while a task is ready, then jumps to the next timer.
* Nothing runs forever: too many steps, or too much time, is an error.

It knows neither World nor any protocol. A simulated network or server is built from ``at()`` (a
message in flight), one Process per node, and ``turn()`` wherever a node can be interrupted.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Literal, TypeAlias

from .tasks import TRAP, Cancelled, Flag, Process, Task

Draw: TypeAlias = Callable[[], float]
Draws: TypeAlias = Literal["one", "keyed"]

STEPS_MAX = 1_000_000
TIME_MAX_S = 86_400.0


class Endless(RuntimeError):
    """The simulation exceeded its limit of steps or of time."""


class Scheduler:
    """Runs tasks, one step of one task at a time."""

    def __init__(
        self,
        seed: int,
        *,
        steps_max: int = STEPS_MAX,
        time_max: float = TIME_MAX_S,
        draws: Draws = "one",
    ) -> None:
        self.seed = seed
        self.is_keyed = draws == "keyed"
        self.steps_max = steps_max
        self.time_max = time_max
        self.random: Draw = _no_common_stream if self.is_keyed else random.Random(seed).random
        self._streams: dict[str, Draw] = {}
        self.now = 0.0
        self.steps = 0
        self._events: list[float | str | tuple[object, ...]] = [0.0]
        """The trace: a moment, then the labels of the tasks that ran then, and noted values. It is
        flat, because a tuple for each step would make most of the garbage collector's work."""
        self.current: Task | None = None
        self.ready: list[Task] = []
        self._tasks: dict[Task, None] = {}
        self._moments: list[float] = []
        self._timers: list[tuple[Task | None, Any, Any]] = []
        """The timer of each of these moments: a task and the ticket of its wait, or (with no task)
        a function and its argument. Two lists in order of time: searching a few dozen bare numbers
        costs a fraction of what a heap of tuples does, and equals keep their order."""
        self._count = 0
        self.is_over = False

    def begin(self, work: Coroutine[Any, Any, Any], process: Process, label: str) -> Task:
        """Run a coroutine as a task of a process."""
        self._count = number = self._count + 1
        if self.is_keyed:
            process.begun = shown = process.begun + 1
        else:
            shown = number
        task = Task(process, work, f"{process.name}/{label}#{shown}")
        self._tasks[task] = None
        task.ticket = number
        task.wake(number, None)
        return task

    def stream(self, key: str) -> Draw:
        """Return the source of random numbers for a consumer: one for all, or one for each key."""
        if not self.is_keyed:
            return self.random
        if key not in self._streams:  # a string seed is hashed the same on every Python
            self._streams[key] = random.Random(f"{self.seed} {key}").random
        return self._streams[key]

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Call a function at a moment: to heal a network, say."""
        self.call_at(when, _call, action)

    def call_at(self, when: float, take: Callable[[Any], object], what: object) -> None:
        """Call a function with an argument at a moment: to deliver a message, say."""
        self._count += 1
        moments = self._moments
        index = bisect_right(moments, when)
        moments.insert(index, when)
        self._timers.insert(index, (None, take, what))

    def note(self, *words: object) -> None:
        """Add an entry to the trace: values whose repr() is the same in every process."""
        self._events.append(words)

    @property
    def trace(self) -> list[tuple[object, ...]]:
        """The moment and the task of every step, and whatever was noted."""
        trace: list[tuple[object, ...]] = []
        now = 0.0
        for one in self._events:
            if isinstance(one, str):
                trace.append((now, one))
            elif isinstance(one, tuple):
                trace.append((now, *one))
            else:
                now = one
        return trace

    def digest(self) -> str:
        """Return a short hash of the trace: equal for equal traces."""
        text = "\n".join(map(repr, self.trace))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(self, until: Callable[[], bool] | Flag | float | None = None) -> None:
        """Run until a condition holds, a flag is set or a moment has come; with None, until nothing
        is left to run."""
        flag, holds = Flag(), None
        if isinstance(until, Flag):
            flag = until
        elif isinstance(until, int | float):
            self.at(until, flag.set)
            flag.is_on = self.now >= until
        else:
            holds = until
        flag.is_on = flag.is_on  # an instance attribute: it is read at every step
        ready, record = self.ready, self._events.append
        draw = self._take_first if self.is_keyed else self._draw
        try:
            while not flag.is_on and (holds is None or not holds()):
                if not ready:
                    self.current = None
                    if self._advance(flag if holds is None else None):
                        continue
                    if until is None:
                        return
                    raise self._endless("nothing is left to run: what was waited for did not come")
                task = ready.pop() if len(ready) == 1 else draw()
                if task.process.is_halted:
                    task.process.held.append(task)
                    continue
                # One step: the task runs to its next trap, or to its end.
                self.steps = steps = self.steps + 1
                if steps > self.steps_max:
                    raise self._endless(f"{task.label} is still busy")
                record(task.label)
                self.current = task
                try:
                    if task.cancelling:
                        trap = task.cancelled()
                    else:
                        trap = task.send(task.answer)
                except BaseException as error:
                    self._ended(task, error)
                else:
                    if trap is not TRAP:
                        raise RuntimeError(
                            f"{task.label} suspended on {trap!r}, which is not a verb of World"
                        )
        finally:
            self.current = None

    @coroutine
    def park(
        self, flag: Flag | None = None, when: float | None = None
    ) -> Generator[object, bool, bool]:
        """The trap: wait for a flag (True) or a moment (False); with neither, yield to others."""
        task = self.current
        if self.is_over or task is None:
            raise Cancelled("the simulation is over")
        self._count = ticket = self._count + 1
        task.ticket = task.trap = ticket
        if flag is None or flag.is_on:
            task.wake(ticket, True)
            return (yield TRAP)
        if when is not None:
            if when <= self.now:
                task.wake(ticket, False)
                return (yield TRAP)
            self._count = ticket + 1
            index = bisect_right(self._moments, when)
            self._moments.insert(index, when)
            self._timers.insert(index, (task, ticket, None))
        first = flag.first
        if first is None or (first.ticket != flag.ticket and not flag.others):
            flag.first, flag.ticket = task, ticket
            return (yield TRAP)
        others = flag.others
        if others is None:
            others = flag.others = {}
        others[ticket] = task
        try:
            return (yield TRAP)
        finally:
            others.pop(ticket, None)

    async def turn(self) -> None:
        """Let others run, for no time at all."""
        await self.park()

    def close(self) -> None:
        """Unwind the tasks that have not ended; while they clean up they cannot wait."""
        self.is_over = True
        while self._tasks:
            self.current, _ = self._tasks.popitem()
            self.current.discard()
        self.current = None

    def _draw(self) -> Task:
        """Take one of the ready tasks, each with the same chance."""
        ready = self.ready
        index, last = int(self.random() * len(ready)), ready.pop()
        if index == len(ready):
            return last
        task, ready[index] = ready[index], last
        return task

    def _take_first(self) -> Task:
        """Take the first ready task of the process whose name sorts first."""
        ready = self.ready
        index = min(range(len(ready)), key=lambda place: ready[place].process.name)
        return ready.pop(index)

    def _ended(self, task: Task, how: BaseException) -> None:
        """Record the end of a task; raise its error unless the task keeps it or was cancelled."""
        del self._tasks[task]
        if isinstance(how, StopIteration):
            task.end(how.value)
            return
        task.was_cancelled = isinstance(how, Cancelled)
        task.error = how if task.keeps_error else None
        task.end(None)
        if not task.was_cancelled and not task.keeps_error:
            how.add_note(f"in {task.label}: {self._where()}")
            raise how

    def _advance(self, flag: Flag | None) -> bool:
        """Jump to the next moment and run all its timers; return False when no timer is left.

        With a flag, go on to later moments until the flag is set or a task is ready.
        """
        moments, timers, ready, now, moved = (
            self._moments,
            self._timers,
            self.ready,
            self.now,
            False,
        )
        while moments:
            when = moments[0]
            if moved and when > now and (flag is None or flag.is_on or ready):
                return True
            del moments[0]
            task, action, word = timers.pop(0)
            if task is not None and task.trap != action:
                continue  # the task has left that wait meanwhile
            moved = True
            self.steps += 1
            if when > now:
                self.now = now = when
                self._events.append(when)
                if when > self.time_max:
                    raise self._endless("time is up")
            if task is None:
                action(word)
            elif task.ticket == action:  # as in wake(), without the cost of a call
                task.ticket, task.answer = 0, False
                task.process.ready.append(task)
        return moved

    def _endless(self, why: str) -> Endless:
        return Endless(f"{why}: {self._where()}")

    def _where(self) -> str:
        return f"seed {self.seed}, step {self.steps}, {self.now:.6f} s"


def _no_common_stream() -> float:
    raise RuntimeError("each consumer draws from a stream of its own here: see stream()")


def _call(action: Callable[[], object]) -> None:
    action()
