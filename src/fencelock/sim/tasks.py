"""The processes of a simulation, their tasks, and the flags that tasks wait for.

A task that waits has a ticket. Whoever wakes it (a flag, a timer, a cancellation) shows that
ticket, and a ticket counts once: it does not matter that two of them come together.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

TRAP = object()  # what a task that waits for the scheduler yields, and nothing else does


class Cancelled(BaseException):
    """The task was cancelled."""


class Process:
    """What is paused and what crashes: the tasks of one process run, or none of them does."""

    def __init__(self, name: str, ready: list[Task]) -> None:
        self.name = name
        self.ready = ready
        """Where its tasks go that can run: one list for all processes."""
        self.held: list[Task] = []
        """Where they stay while the process is halted."""
        self.begun = 0
        """How many tasks it has begun, where tasks are counted for each process."""
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
        """Stop the process for ever; nothing is cleaned up."""
        self.is_halted = self.is_crashed = True


class Flag:
    """A signal that wakes the tasks that wait for it.

    It has no constructor: a simulation makes more of them than of anything else, and most are set
    before anybody waits, or never.
    """

    is_on = False
    first: Task | None = None
    """Who waits, or did: mostly nobody else does."""
    ticket = 0
    """With which ticket."""
    others: dict[int, Task] | None = None
    """Who came after that one, by their tickets."""

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
        """Runs it to its next trap, with the answer to its wait."""
        self.keeps_error = False
        """What it raises is for somebody to look at, and does not end the simulation."""
        self.error: BaseException | None = None
        self.cancelling = False
        """Cancelled is to be raised in it at its next step."""
        self.ticket = 0
        """Of the trap that it waits in; 0 while it is ready or runs."""
        self.trap = 0
        """The ticket of the trap that it came to last; 0 when it has ended."""
        self.answer: bool | None = None
        """To its wait: whether the flag was set."""

    @property
    def done(self) -> bool:
        return self.ended.is_on

    def cancel(self) -> None:
        """Have Cancelled raised in it at its next step."""
        if not self.done:
            self.cancelling = True
            if self.ticket:
                self.wake(self.ticket, False)

    def wake(self, ticket: int, answer: bool | None) -> None:
        """Make it ready, with the answer to its wait."""
        if self.ticket == ticket:
            self.ticket, self.answer = 0, answer
            self.process.ready.append(self)

    def cancelled(self) -> object:
        """Raise Cancelled in it, and run from there to its next trap."""
        self.cancelling = False
        return self._work.throw(Cancelled())

    def end(self, result: Any) -> None:
        """It has ended."""
        self.result = result
        self.trap = 0
        self.ended.set()

    def discard(self) -> None:
        """Unwind it although it has not ended."""
        try:
            self._work.close()
        except (Cancelled, Exception):
            pass  # it wanted to wait while it cleaned up
