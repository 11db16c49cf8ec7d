"""The schedule of the demo: when who is frozen, and when it is woken.

Only the order of things is arranged here.  The lock, the processes, the signals and the store are
real, and no worker knows which one will be frozen: it is stopped while its customer pays.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

from .crew import Crew, Trouble, Worker
from .store import Sale
from .timeline import Timeline, Tone
from .words import TTL_S, Message

PAYMENT_S = 0.15  # how long a customer takes to pay
PAYMENTS_S = 2.0  # and all of them together, if there are many
FREEZE_AFTER = 2  # sales


class Plan(NamedTuple):
    """What the user asked for."""

    seats: int
    workers: int
    unsafe: bool
    seconds_limit: float


class Story:
    """One run of the demo."""

    def __init__(self, plan: Plan, folder: Path, crew: Crew, timeline: Timeline) -> None:
        self._plan = plan
        self._folder = folder
        self._crew = crew
        self._timeline = timeline
        self._end_at = time.monotonic() + plan.seconds_limit
        self._paying: dict[Worker, float] = {}
        """Whose customer is paying, and until when."""
        self._ready = 0
        self._sold = 0
        self._frozen: Worker | None = None
        self.late: Sale | None = None
        """What the frozen worker was about to write."""
        self.loss_known = False
        """The frozen worker has learned that its lease is lost."""

    def play(self) -> None:
        """Run until all workers have ended."""
        for number in range(self._plan.workers):
            self._start(number)
        running = self._plan.workers
        while running:
            heard = self._crew.hear(min([self._end_at, *self._paying.values()]))
            self._take_payments()
            if heard is None:
                continue
            worker, message = heard
            if message is None:
                worker.check_end()
                running -= 1
            else:
                self._follow(worker, message)

    def _start(self, number: int) -> None:
        name = f"worker {number + 1}"
        arguments = ["--folder", str(self._folder), "--timeout", str(self._plan.seconds_limit)]
        arguments += ["--customer", str(number), "--step", str(self._plan.workers)]
        arguments += ["--unsafe"] if self._plan.unsafe else []
        worker = self._crew.start(name, arguments, self._folder / f"worker-{number + 1}.log")
        self._timeline.event(name, f"starts as process {worker.pid}", "faint")

    def _take_payments(self) -> None:
        """Let those go on whose customer has paid."""
        now = time.monotonic()
        if now >= self._end_at:
            raise Trouble(f"it did not end in {self._plan.seconds_limit:g} s (--seconds-limit)")
        for worker in [worker for worker, until in self._paying.items() if until <= now]:
            del self._paying[worker]
            worker.reply()

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
                text = f"REFUSED: the store has seen {message.highest}"
                self._show(worker, message, text, "alarm")
            case "lost":
                why = message.reason.partition(":")[0]
                self._show(worker, message, f"its lease is lost: {why}", "alarm")
                self.loss_known |= worker is self._frozen
            case "done":
                self._timeline.event(worker.name, "finds no free seat and ends", "faint")

    def _read(self, worker: Worker, message: Message) -> None:
        """A worker holds the lock and is about to write: the moment to freeze it."""
        seat, customer = message.seat, message.customer
        text = f"holds the lock, sees that {seat} is free; {customer} pays"
        self._show(worker, message, text, "faint")
        if self._frozen is None and self._sold >= min(FREEZE_AFTER, self._plan.seats - 1):
            worker.freeze()
            self._frozen = worker
            self.late = Sale(seat, customer, worker.name, message.fence)
            text = f"SIGSTOP: {worker.name} is frozen for longer than its ttl of {TTL_S:g} s"
            self._timeline.event("demo", text, "alarm")
        else:
            payment_s = min(PAYMENT_S, PAYMENTS_S / self._plan.seats)
            self._paying[worker] = time.monotonic() + payment_s

    def _sale(self, worker: Worker, message: Message) -> None:
        """A seat is sold.  If it is the one that the frozen worker saw as free, wake that one."""
        self._sold += 1
        text = f"sells {message.seat} to {message.customer}"
        if self._frozen is None or self.late is None or message.seat != self.late.seat:
            self._show(worker, message, text, "good")
        elif worker is self._frozen:
            self._show(worker, message, f"{text} AS WELL: nothing refuses it", "bad")
        else:
            self._show(worker, message, f"{text}: the lease ran out, the lock was free", "good")
            self._wake(self._frozen, self.late)

    def _wake(self, worker: Worker, late: Sale) -> None:
        """The customer has paid and the worker may run again: it writes as if nothing had been."""
        text = f"SIGCONT: {worker.name} wakes and goes on selling {late.seat} to {late.customer}"
        self._timeline.event("demo", text, "alarm")
        worker.reply()
        worker.wake()

    def _show(self, worker: Worker, message: Message, text: str, tone: Tone) -> None:
        self._timeline.event(worker.name, text, tone, message.fence)
