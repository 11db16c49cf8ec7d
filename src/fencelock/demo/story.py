"""The schedule of the demo: who sells, who is frozen when, and who is woken.

Only the order of things is arranged here.  The lock, the processes, the signals and the store are real, and nothing
tells a worker that it will be frozen: it is stopped while its customer pays.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from .crew import Crew, Worker
from .timeline import Timeline, Tone
from .words import TTL_S, Message

PAYMENT_S = 0.12  # how long a customer takes to pay
PAYMENTS_S = 1.5  # and all of them together, when there are many
BEAT_S = 0.3  # a rest for the reader between the takeover and the awakening
FREEZE_AFTER = 2  # sales


class Plan(NamedTuple):
    """What the user asked for."""

    seats: int
    workers: int
    unsafe: bool
    seconds_limit: float


class Frozen(NamedTuple):
    """The worker that was stopped, and what it was about to do."""

    worker: Worker
    message: Message


class Story:
    """One run of the demo."""

    def __init__(self, plan: Plan, folder: Path, crew: Crew, timeline: Timeline) -> None:
        self._plan = plan
        self._folder = folder
        self._crew = crew
        self._timeline = timeline
        self._deadline = time.monotonic() + plan.seconds_limit
        self._ready = 0
        self._sold = 0
        self.frozen: Frozen | None = None
        self.loss_known = False
        """The frozen worker has learned that its lease is lost."""

    def play(self) -> None:
        """Run until all workers have ended."""
        for number in range(self._plan.workers):
            self._start(number)
        running = self._plan.workers
        while running:
            worker, message = self._crew.hear(self._deadline)
            if message is None:
                worker.check_end()
                running -= 1
            else:
                self._follow(worker, message)

    def _start(self, number: int) -> None:
        name = f"worker {number + 1}"
        arguments = ["--folder", str(self._folder), "--timeout", str(self._plan.seconds_limit)]
        arguments += ["--number", str(number), "--step", str(self._plan.workers)]
        arguments += ["--unsafe"] if self._plan.unsafe else []
        worker = self._crew.start(name, arguments, self._folder / f"worker-{number + 1}.log")
        self._timeline.event(name, f"starts as process {worker.pid}", "faint")

    def _follow(self, worker: Worker, message: Message) -> None:
        """Show what a worker did, and let the story go on."""
        match message.what:
            case "ready":
                self._ready += 1
                if self._ready == self._plan.workers:  # all begin together
                    for each in self._crew.workers:
                        each.reply()
            case "read":
                self._read(worker, message)
            case "sold":
                self._sale(worker, message)
            case "refused":
                self._show(
                    worker, message, f"REFUSED: the store has seen {message.highest}", "good"
                )
            case "lost":
                self._show(
                    worker, message, f"learns that its lease is lost: {message.reason}", "alarm"
                )
                self.loss_known |= self.frozen is not None and worker is self.frozen.worker
            case "done":
                self._timeline.event(worker.name, "finds no free seat and ends", "faint")

    def _read(self, worker: Worker, message: Message) -> None:
        """A worker holds the lock and is about to write: let the customer pay, or freeze it there."""
        text = f"holds the lock, sees that {message.seat} is free; {message.customer} pays"
        self._show(worker, message, text, "faint")
        if self.frozen is None and self._sold >= min(FREEZE_AFTER, self._plan.seats - 1):
            worker.freeze()
            self.frozen = Frozen(worker, message)
            text = f"SIGSTOP: {worker.name} is frozen for longer than its ttl of {TTL_S:g} s"
            self._timeline.event("demo", text, "alarm")
            return
        time.sleep(min(PAYMENT_S, PAYMENTS_S / self._plan.seats))
        worker.reply()

    def _sale(self, worker: Worker, message: Message) -> None:
        """A seat is sold; if it is the one that the frozen worker saw as free, wake that one."""
        self._sold += 1
        frozen = self.frozen
        text = f"sells {message.seat} to {message.customer}"
        if frozen is None or message.seat != frozen.message.seat:
            self._show(worker, message, text, "good")
        elif worker is frozen.worker:
            self._show(worker, message, f"{text} AGAIN: nothing refuses the late write", "bad")
        else:
            self._show(worker, message, f"{text}: the lease ran out, the lock was free", "good")
            self._wake(frozen)

    def _wake(self, frozen: Frozen) -> None:
        time.sleep(BEAT_S)
        seat, customer = frozen.message.seat, frozen.message.customer
        text = f"SIGCONT: {frozen.worker.name} goes on where it was: selling {seat} to {customer}"
        self._timeline.event("demo", text, "alarm")
        frozen.worker.reply()
        frozen.worker.wake()

    def _show(self, worker: Worker, message: Message, text: str, tone: Tone) -> None:
        self._timeline.event(worker.name, text, tone, message.fence)
