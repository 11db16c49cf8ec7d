"""The processes of a simulation, their tasks, and the flags that tasks wait for.

A task that waits has a ticket. What wakes it (a flag, a timer, a cancellation) presents that
ticket, and a ticket counts once, so two of them may come at the same time.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

TRAP = object()  # yielded by a task that waits for the scheduler, and by nothing else


class Cancelled(BaseException):
    """The task was cancelled."""


class Process:
    """The unit that is paused or crashes: either all tasks of a process run, or none does."""

    def __init__(self, name: str, ready: list[Task]) -> None:
        self.name = name
        self.ready = ready
        """The tasks that can run: one list for all processes."""
        self.held: list[Task] = []
        """Its ready tasks while the process is halted."""
        self.begun = 0
        """How many tasks it has begun, if tasks are counted for each process (keyed draws)."""
        self.is_halted = False
        self.is_crashed = False

    def pause(self) -> None:
        """Freeze the process: time goes on, its tasks do not."""
        self.is_halted = True

    def resume(self) -> None:
        """Let a paused process go on; a crashed one stays as it is."""
        if not self.is_crashed:
            self.is_halted = False
            self.ready += self.held
            self.held = []

    def crash(self) -> None:
        """Stop the process for good; nothing is cleaned up."""
        self.is_halted = self.is_crashed = True


class Flag:
    """A signal that wakes the tasks that wait for it.

    It has no constructor: a simulation makes more of them than of anything else, and most are set
    before a task waits, or never.
    """

    is_on = False
    first: Task | None = None
    """The task that waits, or did: mostly it is the only one."""
    ticket = 0
    """The ticket of that task's wait."""
    others: dict[int, Task] | None = None
    """The tasks that came after that one, by their tickets."""

    def set(self) -> None:
        self.is_on = True
        first = self.first
        if first is not None:
            self.first = None
            if first.ticket == self.ticket:  # as in wake(), without the cost of a call
                first.ticket, first.answer = 0, True
                first.process.ready.append(first)
            if self.others is not None:
                others, self.others = self.others, None
                for ticket, task in others.items():
                    task.wake(ticket, True)

    def clear(self) -> None:
        self.is_on = False

    def is_set(self) -> bool:
        return self.is_on


class Task:
    """One coroutine of one process."""

    __slots__ = (
        "__weakref__",
        "_work",
        "answer",
        "cancelling",
        "ended",
        "error",
        "keeps_error",
        "label",
        "limit",
        "process",
        "result",
        "send",
        "ticket",
        "trap",
        "was_cancelled",
    )

    def __init__(self, process: Process, work: Coroutine[Any, Any, Any], label: str) -> None:
        self.process = process
        self.label = label
        self.limit = float("inf")
        """The moment, on the clock of its process, by which its waits end."""
        self.ended = Flag()
        self.result: Any = None
        self.was_cancelled = False
        """Whether it was a cancellation that ended it."""
        self._work = work
        self.send = work.send
        """Runs it to its next trap, with the result of its wait."""
        self.keeps_error = False
        """Whether its exception is kept in ``error`` and does not end the simulation."""
        self.error: BaseException | None = None
        self.cancelling = False
        """Whether Cancelled is to be raised in it at its next step."""
        self.ticket = 0
        """The ticket of the trap that it waits in; 0 while it is ready or runs."""
        self.trap = 0
        """The ticket of the last trap that it came to; 0 when it has ended."""
        self.answer: bool | None = None
        """The result of its wait: whether the flag was set."""

    @property
    def done(self) -> bool:
        return self.ended.is_on

    def cancel(self) -> None:
        """Raise Cancelled in it at its next step."""
        if not self.done:
            self.cancelling = True
            if self.ticket:
                self.wake(self.ticket, False)

    def wake(self, ticket: int, answer: bool | None) -> None:
        """Make it ready, with the result of its wait, unless the ticket is out of date."""
        if self.ticket == ticket:
            self.ticket, self.answer = 0, answer
            self.process.ready.append(self)

    def cancelled(self) -> object:
        """Raise Cancelled in it, and run from there to its next trap."""
        self.cancelling = False
        return self._work.throw(Cancelled())

    def end(self, result: Any) -> None:
        """Record its result, and wake the tasks that wait for its end."""
        self.result = result
        self.trap = 0
        self.ended.set()

    def discard(self) -> None:
        """Unwind it although it has not ended."""
        try:
            self._work.close()
        except (Cancelled, Exception):
            pass  # it tried to wait while it cleaned up
