"""The seeded scheduler under the simulated world: it draws the next task and keeps virtual time.

* One seed decides everything. All chance comes from ``random.Random(seed).random()``, whose
  numbers are the same on every Python, and nothing is ever ordered by a hash or an address.
* A step runs one task from one trap to the next, or does one thing that is due, such as
  delivering a message. Which of the ready tasks runs is drawn. A trap is the only place where a
  task is interrupted, cancelled, paused or crashed.
* Time stands still while a task is ready, then jumps to the next timer.
* Nothing runs for ever: too many steps, or too much time, is an error.

It knows neither World nor any protocol. A simulated network or server is built from ``at()`` (a
message that is under way), one Process per node, and ``turn()`` wherever a node can be interrupted.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush
from types import coroutine
from typing import Any

from .sim_tasks import TRAP, Cancelled, Flag, Process, Task

STEPS_MAX = 1_000_000
TIME_MAX_S = 86_400.0


class Endless(RuntimeError):
    """The simulation did not come to its end within its bounds."""


class Scheduler:
    """Runs tasks, one step of one task at a time."""

    def __init__(
        self, seed: int, *, steps_max: int = STEPS_MAX, time_max: float = TIME_MAX_S
    ) -> None:
        self.seed = seed
        self.steps_max = steps_max
        self.time_max = time_max
        self.random = random.Random(seed).random
        self.now = 0.0
        self.steps = 0
        self.trace: list[tuple[object, ...]] = []
        """The moment and the task of every step, and whatever was noted."""
        self.current: Task | None = None
        self.ready: list[Task] = []
        self._tasks: dict[Task, None] = {}
        self._timers: list[tuple[float, int, Task | None, Any, Any]] = []
        """By moment and number: a task and the ticket that it waits with; or what to do, and with
        which words. Plain tuples, because most of what a simulation does is to sort them."""
        self._count = 0
        self._is_over = False

    def begin(self, work: Coroutine[Any, Any, Any], process: Process, label: str) -> Task:
        """Run a coroutine as a task of a process."""
        self._count = number = self._count + 1
        task = Task(process, work, f"{process.name}/{label}#{number}")
        self._tasks[task] = None
        task.ticket = number
        task.wake(number, None)
        return task

    def at(self, when: float, action: Callable[..., object], *words: object) -> None:
        """Do something at a moment: deliver a message, say."""
        self._count = number = self._count + 1
        heappush(self._timers, (when, number, None, action, words))

    def note(self, *words: object) -> None:
        """Put something into the trace: values whose repr() is the same in every process."""
        self.trace.append((self.now, *words))

    def digest(self) -> str:
        """A short name for all that happened: equal for equal traces."""
        text = "\n".join(map(repr, self.trace))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(self, until: Callable[[], bool] | Flag | float | None = None) -> None:
        """Run until a condition holds, a flag is set or a moment has come; else until nothing is
        left to run."""
        flag, holds = Flag(), None
        if isinstance(until, Flag):
            flag = until
        elif isinstance(until, int | float):
            self.at(until, flag.set)
            flag.is_on = self.now >= until
        else:
            holds = until
        ready, step, draw = self.ready, self._step, self._draw
        while not flag.is_on and (holds is None or not holds()):
            if ready:
                task = ready.pop() if len(ready) == 1 else draw()
                if task.process.is_halted:
                    task.process.held.append(task)
                else:
                    step(task)
            elif not self._advance(flag if holds is None else None):
                if until is None:
                    return
                raise self._endless("nothing is left to run, and what was waited for did not come")

    @coroutine
    def park(
        self, flag: Flag | None = None, when: float | None = None
    ) -> Generator[object, bool, bool]:
        """The trap: wait for a flag (True) or a moment (False); with neither, for one's turn."""
        task = self.current
        if self._is_over or task is None:
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
            self._count = number = ticket + 1
            heappush(self._timers, (when, number, task, ticket, None))
        waiters = flag.waiters
        if waiters is None:
            waiters = flag.waiters = {}
        waiters[ticket] = task
        try:
            return (yield TRAP)
        finally:
            waiters.pop(ticket, None)

    async def turn(self) -> None:
        """Let others run, for no time at all."""
        await self.park()

    def close(self) -> None:
        """Unwind the tasks that have not ended; they can wait for nothing while they clean up."""
        self._is_over = True
        while self._tasks:
            self.current, _ = self._tasks.popitem()
            self.current.discard()
        self.current = None

    def _draw(self) -> Task:
        """Take one of the ready tasks, each with the same chance."""
        ready = self.ready
        place, last = int(self.random() * len(ready)), ready.pop()
        if place == len(ready):
            return last
        task, ready[place] = ready[place], last
        return task

    def _step(self, task: Task) -> None:
        """Run a task to its next trap, or to its end."""
        self.steps = steps = self.steps + 1
        if steps > self.steps_max:
            raise self._endless(f"{task.label} is still busy")
        self.trace.append((self.now, task.label))
        self.current = task
        try:
            trap = (
                task.cancelled() if task.cancelling and not task.shields else task.send(task.news)
            )
        except StopIteration as stop:
            task.end(stop.value)
            del self._tasks[task]
            return
        except Cancelled:
            task.was_cancelled = True
            task.end(None)
            del self._tasks[task]
            return
        except BaseException as error:
            task.end(None)
            del self._tasks[task]
            error.add_note(f"in {task.label}: {self._place()}")
            raise
        finally:
            self.current = None
        if trap is not TRAP:
            raise RuntimeError(f"{task.label} suspended on {trap!r}, which is no verb of World")

    def _advance(self, flag: Flag | None) -> bool:
        """Jump to the next timer and do all that is due then; False when there is none.

        With a flag: and go on so until it is set or a task is ready.
        """
        timers, ready, now, moved = self._timers, self.ready, self.now, False
        while timers:
            if moved and timers[0][0] > now and (flag is None or flag.is_on or ready):
                return True
            when, _, task, action, words = heappop(timers)
            if task is not None and task.trap != action:
                continue  # it has gone on meanwhile
            moved = True
            self.steps += 1
            if when > now:
                self.now = now = when
                if when > self.time_max:
                    raise self._endless("time is up")
            if task is None:
                action(*words)
            else:
                task.wake(action, False)
        return moved

    def _endless(self, why: str) -> Endless:
        return Endless(f"{why}: {self._place()}")

    def _place(self) -> str:
        return f"seed {self.seed}, step {self.steps}, {self.now:.6f} s"
