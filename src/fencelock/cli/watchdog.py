"""The watchdog: a process beside the wrapper that stops the command before the lease can end.

It is a process of its own because the wrapper may be the one that is frozen, killed or starved of
time: a dead man's switch. The wrapper tells it, again and again, until when the lease is good. If
that stops, or the wrapper dies, the watchdog ends the command's process group in time. It also
keeps the writing end of the lease pipe: that reaches EOF whatever happens to the wrapper.

It is forked before the wrapper starts any thread or opens any engine, knows nothing about locks,
and speaks lines:

    group PGID        the command runs as this process group
    until SECONDS     the lease is good until this moment of the boot clock
    lost              the lease is gone: do now what would be done in time
    quit              the command has ended
"""

from __future__ import annotations

import os
import select
import signal
from typing import NamedTuple

from ..worlds import clock

MARGIN_S = 0.1  # how long before the end everything must be over


class Plan(NamedTuple):
    """What to do to a command whose lease ends."""

    first: int | None
    """The signal that asks it to stop, if any."""
    kill: bool
    """Whether it is killed in the end."""
    grace: float
    """Seconds between the two."""


class Watch:
    """When to send what, worked out from what is known: no I/O, no clock."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.group = 0
        self.until: float | None = None
        self.kill_at: float | None = None
        self.ended = False
        """The lease counts as over: the pipe of the command is closed."""

    def lose(self, now: float) -> list[int]:
        """The lease is gone, or the wrapper is."""
        if self.ended:
            return []
        self.ended = True
        end = now + self.plan.grace
        if self.until is not None and self.until - MARGIN_S > now:
            end = min(
                end, self.until - MARGIN_S
            )  # still ours for a while, and over before that ends
        self.kill_at = end if self.plan.kill else None
        return self._first(now)

    def _first(self, now: float) -> list[int]:
        if self.plan.first is None:
            return self._overdue(now) if self.plan.grace == 0 else []
        return [self.plan.first]

    def _overdue(self, now: float) -> list[int]:
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = None
            return [signal.SIGKILL]
        return []

    def look(self, now: float) -> list[int]:
        """The signals that are due."""
        if not self.ended and self.until is not None and now >= self._stop_at():
            return self.lose(now)
        return self._overdue(now) if self.ended else []

    def next_at(self) -> float | None:
        """When to look again."""
        if self.ended:
            return self.kill_at
        return None if self.until is None else self._stop_at()

    def _stop_at(self) -> float:
        assert self.until is not None
        return self.until - MARGIN_S - self.plan.grace


class Watchdog:
    """The wrapper's side."""

    def __init__(self, plan: Plan) -> None:
        orders_in, self._orders = os.pipe()
        self._reports, reports_out = os.pipe()
        self.lease_pipe, lease_end = os.pipe()
        self.plan = plan
        self.fired = False
        """It has ended the command, or begun to."""
        self.gone = False
        """It was killed: somebody else has to watch."""
        self.pid = os.fork()
        if self.pid == 0:
            for descriptor in (self._orders, self._reports, self.lease_pipe):
                os.close(descriptor)
            _serve(plan, orders_in, reports_out, lease_end)
        for descriptor in (orders_in, reports_out, lease_end):
            os.close(descriptor)
        os.set_blocking(self._orders, False)
        os.set_blocking(self._reports, False)

    def fileno(self) -> int:
        """Readable when the watchdog has stopped the command."""
        return self._reports

    def tell(self, order: str) -> None:
        """Give an order; a watchdog that does not hear is as good as one that fires."""
        try:
            os.write(self._orders, f"{order}\n".encode())
        except OSError:
            pass

    def look(self) -> bool:
        """Whether the watchdog has fired."""
        try:
            word = os.read(self._reports, 64)
        except OSError:
            return self.fired  # nothing to read
        self.fired = self.fired or bool(word)
        self.gone = self.gone or not word
        return self.fired

    def close(self) -> None:
        """The command has ended: send the watchdog home."""
        self.tell("quit")
        for descriptor in (self._orders, self._reports, self.lease_pipe):
            os.close(descriptor)
        os.waitpid(self.pid, 0)


def _serve(plan: Plan, orders: int, reports: int, lease_end: int) -> None:
    """The watchdog's side; never returns."""
    try:
        os.setsid()  # what is sent to the wrapper's group or typed at its terminal is not for us
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGQUIT,
            signal.SIGPIPE,
        ):
            signal.signal(number, signal.SIG_IGN)
        _let_go(keep={orders, reports, lease_end})
        _guard(Watch(plan), orders, reports, lease_end)
    finally:
        os._exit(0)


def _let_go(keep: set[int]) -> None:
    """Hold on to nothing of the wrapper's: a reader of its stdout must see EOF when it ends."""
    for descriptor in (0, 1, 2):
        if descriptor not in keep:
            os.close(descriptor)


def _guard(watch: Watch, orders: int, reports: int, lease_end: int) -> None:
    text = b""
    while orders >= 0 or (watch.next_at() is not None and _alive(watch.group)):
        ready, _, _ = select.select([orders] if orders >= 0 else [], [], [], _nap(watch, orders))
        signals: list[int] = []
        if ready:
            chunk = os.read(orders, 4096)
            *lines, text = (text + chunk).split(b"\n")
            if b"quit" in lines:
                return
            for line in lines:
                signals += _obey(watch, line.decode())
            if not chunk:  # the wrapper is gone
                orders = -1
                signals += watch.lose(clock.now())
        signals += watch.look(clock.now())
        if watch.ended and lease_end >= 0:
            os.close(lease_end)
            lease_end = -1
            _report(reports)
        for number in signals:
            _send(watch.group, number)


def _nap(watch: Watch, orders: int) -> float | None:
    due = watch.next_at()
    if due is None:
        return None
    nap = max(0.0, due - clock.now())
    return nap if orders >= 0 else min(nap, 0.1)  # alone, see now and then whether all is over


def _obey(watch: Watch, order: str) -> list[int]:
    word, _, value = order.partition(" ")
    if word == "group":
        watch.group = int(value)
        if watch.ended and watch.plan.kill:
            return [signal.SIGKILL]  # it began after the end
    elif word == "until":
        watch.until = float(value)
    elif word == "lost":
        return watch.lose(clock.now())
    return []


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OSError):
        return False
    return group > 0


def _report(reports: int) -> None:
    try:
        os.write(reports, b"!")
    except OSError:
        pass  # the wrapper is gone


def _send(group: int, number: int) -> None:
    if group > 0:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended by itself
