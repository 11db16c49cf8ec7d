"""``fencelock run NAME [options] -- CMD ARG…``: wait, run, release; stop the command in time."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from .. import observe
from ..errors import FencelockError, NotAcquired
from ..worlds import clock
from . import codes, terminal
from .child import CannotRun
from .durations import brief
from .order import Order, arguments, read
from .signals import Interrupted, Signals
from .status import Status
from .supervise import Outcome, Supervisor
from .watchdog import MARGIN_S, Watchdog

if TYPE_CHECKING:
    from ..sync import Client, Lease

__all__ = ["EPILOG", "USAGE", "arguments", "main"]

USAGE = "fencelock run NAME [options] -- CMD [ARG ...]"
EPILOG = f"""\
The command is stopped before the lease can end: TERM at its end - grace - {MARGIN_S:g}s, KILL at
its end - {MARGIN_S:g}s, by a watchdog process of its own. The command finds FENCELOCK_NAME,
FENCELOCK_FENCE, FENCELOCK_TTL and FENCELOCK_URL in its environment, and in FENCELOCK_LEASE_FD the
number of a pipe that reaches EOF when the lease is lost.

durations: 500ms 30s 1m30s 2h PT30S, or plain seconds

exit codes:
{codes.text()}
"""


def main(options: argparse.Namespace) -> int:
    """Run a command under a lock."""
    order = read(options)
    status = Status(order.status_fd, order.name)
    watchdog = Watchdog(order.plan)  # before any thread is started and any engine opened
    code = codes.FAILED
    try:
        with Signals() as signals:
            code = _Run(order, status, signals, watchdog).main()
    except FencelockError as error:
        status.error, code = str(error), codes.of(error)
        raise
    finally:
        watchdog.close()
        status.write(code)
    return code


class _Run:
    """One command under one lock."""

    def __init__(self, order: Order, status: Status, signals: Signals, watchdog: Watchdog) -> None:
        self._order = order
        self._status = status
        self._signals = signals
        self._watchdog = watchdog

    def main(self) -> int:
        from ..sync import connect

        observe.redirect(self._warn)
        try:
            with connect(self._order.url) as client:
                lease = self._acquire(client)
                return lease if isinstance(lease, int) else self._hold(client, lease)
        except Interrupted as interrupted:
            self._status.outcome = "interrupted"
            return codes.SIGNALLED + interrupted.number
        finally:
            observe.redirect(None)

    def _acquire(self, client: Client) -> Lease | int:
        """Wait for the lock, or return the exit code that says why not."""
        from .waiting import WaitingLine

        order, started = self._order, clock.now()
        lock = client.lock(
            order.name,
            ttl=order.ttl,
            timeout=order.timeout,
            meta=order.meta,
            on_lost=lambda _: self._signals.wake(),
        )
        try:
            with WaitingLine(client, order.name, not order.quiet and order.timeout != 0):
                lease = lock.acquire()
        except NotAcquired as error:
            self._status.outcome = "not_acquired"
            if order.busy_code != codes.OK:
                self._warn(str(error))
            return order.busy_code
        finally:
            self._status.wait_s = clock.now() - started
        self._signals.waiting = False
        self._status.fence = lease.fence
        self._note(f"acquired {lease.name!r}, fence {lease.fence}, in {brief(self._status.wait_s)}")
        return lease

    def _hold(self, client: Client, lease: Lease) -> int:
        """Run the command under the lease."""
        order, status, started = self._order, self._status, clock.now()
        supervisor = Supervisor(
            lease, self._signals, self._watchdog, order.max_runtime, order.grace, self._warn
        )
        try:
            outcome = supervisor.run(order.command, self._environment(client, lease))
        except CannotRun as error:
            self._warn(str(error))
            outcome = Outcome(error.code, stopped=False, timed_out=False)
        status.held_s = clock.now() - started
        status.renewals = lease.renewals
        status.ran(outcome)
        self._release(lease)
        status.lost_reason = lease.reason
        if lease.reason is not None and not outcome.stopped:
            self._warn(f"the command ended by itself, but its lease was lost: {lease.reason}")
        self._note(f"the command ended with {outcome.code} after {brief(status.held_s)}")
        if outcome.stopped:
            return codes.LOST
        return codes.TIMED_OUT if outcome.timed_out else outcome.code

    def _release(self, lease: Lease) -> None:
        try:
            lease.release()
        except FencelockError as error:
            self._warn(str(error))

    def _environment(self, client: Client, lease: Lease) -> dict[str, str]:
        return {
            **os.environ,
            "FENCELOCK_NAME": lease.name,
            "FENCELOCK_FENCE": str(lease.fence),
            "FENCELOCK_TTL": f"{lease.ttl:g}",
            "FENCELOCK_URL": client.url,
            "FENCELOCK_LEASE_FD": str(self._watchdog.lease_pipe),
        }

    def _warn(self, message: str) -> None:
        if not self._order.quiet:
            terminal.say(message)

    def _note(self, message: str) -> None:
        if self._order.verbose:
            terminal.say(message)
