"""Run the workers of the demo: freeze one between its read and its write, and wake it late.

Only the order of things is arranged here.  The lock, the processes, the signals and the store are
real, and no worker knows which one will be frozen: it is stopped while its customer pays.  Each
worker has a process group of its own, so that Ctrl-C in a terminal reaches the demo alone, which
then ends them.  If the demo itself is killed, every worker finds its input closed and ends, and the
kernel ends the frozen one.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .verdict import Sale
from .worker import TTL_S

Tone = Literal["plain", "faint", "good", "alarm", "bad"]
Show = Callable[[str, str, Tone, int | None], None]

PAYMENT_S = 0.15  # how long a customer takes to pay
PAYMENTS_S = 2.0  # and all of them together, if there are many
FREEZE_AFTER = 2  # sales
TICK_S = 0.02  # how late a payment or a signal may be noticed
END_S = 5.0  # how long a process may take to end


class Plan(NamedTuple):
    """The options of a run."""

    seats: int
    workers: int
    unsafe: bool
    seconds_limit: float


class Trouble(Exception):
    """The demo cannot go on, and why."""


class Interrupted(Exception):
    """A signal requests the end of the demo."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Worker:
    """One process, as its parent sees it."""

    def __init__(self, number: int, plan: Plan, folder: Path, output: int) -> None:
        self.name = f"worker {number}"
        self.paid_at = float("inf")
        """When the customer of its sale has paid."""
        self._log = folder / f"worker-{number}.log"
        arguments = (self.name, folder, number, plan.workers, plan.seconds_limit, plan.unsafe)
        with self._log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                encoding="utf-8",
                process_group=0,
            )

    def go_on(self) -> None:
        """Send the line for which the worker waits."""
        self.paid_at = float("inf")
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died, and its exit code is read next

    def check_end(self) -> None:
        """Raise Trouble unless the process has ended as it should."""
        who, code = f"{self.name} (process {self.process.pid})", self.process.returncode
        if code < 0:
            name = next((s.name for s in signal.Signals if s == -code), f"signal {-code}")
            raise Trouble(f"{who} was killed by {name}")
        if code > 0:  # the last line of a traceback is the error itself
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
            raise Trouble(f"{who} died: {lines[-1] or f'exit code {code}'}")

    def bury(self) -> None:
        """Wait for the end of a process that was killed, and close its input."""
        try:
            self.process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            pass  # stuck in the kernel until that lets go


class Scenario:
    """One run of the demo.  Leaving the ``with`` block ends the workers that still run."""

    def __init__(self, plan: Plan, show: Show) -> None:
        self._plan = plan
        self._show = show
        self._end_at = time.monotonic() + plan.seconds_limit
        self._input, self._output = os.pipe()
        self._workers: dict[str, Worker] = {}
        self._ready = self._sold = self._signal = 0
        self._frozen: Worker | None = None
        self.late: Sale | None = None
        """What the frozen worker was about to write."""
        self.loss_known = False
        """The frozen worker has learned that its lease is lost."""

    def interrupt(self, number: int, _frame: object = None) -> None:
        """Handle a signal: the scenario ends at its next step, never in the middle of one."""
        self._signal = number

    def __enter__(self) -> Scenario:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.bury()
        os.close(self._input)
        os.close(self._output)

    def play(self, folder: Path) -> None:
        """Run until all workers have ended."""
        for number in range(1, self._plan.workers + 1):
            worker = Worker(number, self._plan, folder, self._output)
            self._workers[worker.name] = worker
            self._show(worker.name, f"starts as process {worker.process.pid}", "faint", None)
        for message in self._messages():
            self._follow(self._workers[message.pop("worker")], **message)

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Yield the messages of the workers, until all have ended as they should."""
        running, text = [*self._workers.values()], b""
        while running:
            self._keep_time()
            ended = [worker for worker in running if worker.process.poll() is not None]
            if select.select([self._input], [], [], 0 if ended else TICK_S)[0]:
                *lines, text = (text + os.read(self._input, 65536)).split(b"\n")
                yield from map(json.loads, lines)
                continue
            for worker in ended:  # and all its messages were read
                worker.check_end()
                running.remove(worker)

    def _keep_time(self) -> None:
        """Let workers go on whose customer has paid; raise on a signal or when time is up."""
        now = time.monotonic()
        if self._signal:
            raise Interrupted(self._signal)
        if now >= self._end_at:
            raise Trouble(f"it did not end in {self._plan.seconds_limit:g} s (--seconds-limit)")
        for worker in self._workers.values():
            if now >= worker.paid_at:
                worker.go_on()

    def _follow(self, worker: Worker, what: str, **facts: Any) -> None:
        """Show what a worker did, and let the scenario go on."""
        fence = facts.get("fence")
        match what:
            case "ready":
                self._ready += 1
                if self._ready == self._plan.workers:  # all begin together
                    for each in self._workers.values():
                        each.go_on()
            case "read":
                self._read(worker, **facts)
            case "sold":
                self._sale(worker, **facts)
            case "refused":
                text = f"REFUSED: the store has seen {facts['highest']}"
                self._show(worker.name, text, "alarm", fence)
            case "lost":
                why = facts["reason"].partition(":")[0]
                self._show(worker.name, f"its lease is lost: {why}", "alarm", fence)
                self.loss_known |= worker is self._frozen
            case _:
                self._show(worker.name, "finds no free seat and ends", "faint", None)

    def _read(self, worker: Worker, seat: str, customer: str, fence: int) -> None:
        """Handle a read: the worker holds the lock and is about to write, so it may be frozen."""
        text = f"holds the lock, sees that {seat} is free; {customer} pays"
        self._show(worker.name, text, "faint", fence)
        if self._frozen is None and self._sold >= min(FREEZE_AFTER, self._plan.seats - 1):
            worker.process.send_signal(signal.SIGSTOP)
            self._frozen, self.late = worker, Sale(seat, customer, worker.name, fence)
            text = f"SIGSTOP: {worker.name} is frozen for longer than its ttl of {TTL_S:g} s"
            self._show("demo", text, "alarm", None)
        else:
            payment_s = min(PAYMENT_S, PAYMENTS_S / self._plan.seats)
            worker.paid_at = time.monotonic() + payment_s

    def _sale(self, worker: Worker, seat: str, customer: str, fence: int) -> None:
        """Handle a sale.  If the frozen worker saw that seat as free, wake that worker."""
        self._sold += 1
        text = f"sells {seat} to {customer}"
        if self._frozen is None or self.late is None or seat != self.late.seat:
            self._show(worker.name, text, "good", fence)
        elif worker is self._frozen:
            self._show(worker.name, f"{text} AS WELL: nothing refuses it", "bad", fence)
        else:
            text = f"{text}: the lease ran out, the lock was free"
            self._show(worker.name, text, "good", fence)
            name, late = self._frozen.name, self.late
            text = f"SIGCONT: {name} wakes and goes on selling {late.seat} to {late.customer}"
            self._show("demo", text, "alarm", None)
            self._frozen.go_on()  # its customer has paid: it writes as if nothing had happened
            self._frozen.process.send_signal(signal.SIGCONT)
