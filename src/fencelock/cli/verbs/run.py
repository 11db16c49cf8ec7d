"""``fencelock run NAME [options] -- CMD ARG…``: wait, run, release; stop the command in time."""

from __future__ import annotations

import argparse
import os
import signal
from typing import TYPE_CHECKING, NamedTuple

from ... import observe
from ...engines import settled_url
from ...errors import FencelockError, NotAcquired, OutcomeUnknown, UsageError
from ...model import ELECTION, RECIPE, Scalar
from .. import clock, codes, terminal
from ..clock import brief, seconds
from ..codes import BadArguments
from ..lease_token import SLOT
from ..options import (
    LockRequest,
    lock_arguments,
    lock_request,
    number_of,
    optional,
    share_arguments,
)
from ..run.child import CannotRun
from ..run.kill_plan import KillPlan, margin
from ..run.status import Status
from ..run.supervisor import Outcome, Supervisor
from ..run.watchdog import Watchdog
from ..signals import Interrupted, Late, Signals

if TYPE_CHECKING:
    from ...sync import Client, Lease


GRACE_S = 5.0
REMEMBER_S = 7.0  # for five of them the recipe retries
USAGE = "fencelock run NAME [options] -- CMD [ARG ...]"
EPILOG = f"""\
The command is stopped before the lease can end: KILL is sent a twentieth of
the ttl (100ms to 1s) before its end, and TERM a grace before that, by a
watchdog process of its own. The command finds
FENCELOCK_NAME, FENCELOCK_FENCE, FENCELOCK_TTL, FENCELOCK_URL and
FENCELOCK_ENGINE (the URL without its password, for logs) in its environment,
in FENCELOCK_LEASE_FD the number of a pipe that reaches EOF when the lease is
lost, and with --limit in FENCELOCK_SLOT which of the slots 0 to N-1 it has.

A semaphore (--limit), a read/write lock (--read, --write) and a plain lock of
one name have nothing to do with each other. Give all users of a semaphore the
same limit.

With --hold-at-least others are kept out for that long from the grant on, also
if the command ends and fencelock has exited. The engine must be one whose locks
outlive a process.

With --once-per, one of any number of machines runs the command in each window
of that length, counted on the clock of each machine since 1970. The others
wait until the window ends at the longest (-w, -n: shorter), so that a runner
that crashed is replaced, and exit with 0. Exit code 0 of the command is
remembered; after any other, another one may run it.

durations: 500ms 30s 1m30s 2h PT30S, or plain seconds

exit codes:
{codes.text()}
"""


class RunRequest(NamedTuple):
    """The checked command line of ``run``."""

    lock: LockRequest
    command: list[str]
    options: argparse.Namespace
    """The command line as it was parsed: it names the engine."""
    max_runtime: float | None
    plan: KillPlan
    grace: float
    verbose: bool
    once_per: float | None = None
    """The length of a window in which the command is run once."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options, spelled as by flock(1) where it has them."""
    lock_arguments(parser, lowest_code=0)
    share_arguments(parser)
    add = parser.add_argument
    add(
        "--hold-at-least",
        metavar="DUR",
        help="keep others out for this long, also if the command ends earlier",
    )
    add("--skip-ok", action="store_true", help="exit with 0 when the lock is not acquired in time")
    add(
        "--once-per",
        metavar="DUR",
        help="run it once in every window of this length, on any machine; else exit with 0",
    )
    add(
        "--on-lost",
        metavar="HOW",
        default="term",
        help="when the lease is lost: term (default), kill, warn, signal:NAME",
    )
    parser.set_defaults(recipe=None)
    command_arguments(parser)


def command_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for how a command is run and stopped."""
    add = parser.add_argument
    add("--grace", metavar="DUR", help="from TERM to KILL (default 5s, or a quarter of the ttl)")
    add("--max-runtime", metavar="DUR", help="stop the command after this long")
    add(
        "--status-fd",
        metavar="N",
        type=number_of(0, 65535),
        help="write a JSON object about the run to it",
    )
    add("-c", dest="line", metavar="LINE", help="run a line with the shell, instead of a command")


def read(options: argparse.Namespace) -> RunRequest:
    """Check everything that can be checked without an engine."""
    command = _command(options)
    about: dict[str, Scalar] = {"command": os.path.basename(command[0])[:80]}
    if options.recipe is not None:
        about[RECIPE] = options.recipe
    lock = lock_request(options, **about)
    if options.skip_ok:
        lock = lock._replace(busy_code=codes.OK)
    if options.once_per is not None:
        _check_once(options, lock)
    grace = min(GRACE_S, lock.ttl / 4) if options.grace is None else seconds(options.grace)
    return RunRequest(
        lock=lock._replace(quiet=options.quiet or options.json),
        command=command,
        options=options,
        max_runtime=optional(options.max_runtime),
        plan=_plan(options.on_lost, grace, lock.ttl),
        grace=grace,
        verbose=options.verbose,
        once_per=optional(options.once_per),
    )


def _check_once(options: argparse.Namespace, lock: LockRequest) -> None:
    """Refuse a window of no length, and options that would mean something else within it."""
    from ...recipes.once import check_every

    try:
        check_every(seconds(options.once_per), "--once-per")
    except UsageError as error:
        raise BadArguments(str(error)) from None
    if options.conflict_exit_code != codes.NOT_ACQUIRED:
        raise BadArguments("--once-per exits with 0 when another runs the command: leave out -E")
    if lock.role != "lock" or lock.min_hold is not None:
        raise BadArguments(
            "--once-per has one run the command in each window by a plain lock: leave out "
            "--limit, --read, --write and --hold-at-least"
        )


def status_fd(options: argparse.Namespace) -> int | None:
    """Return the descriptor for the status: the named one, stderr with --json, else None."""
    descriptor: int | None = options.status_fd
    if descriptor is None:
        return 2 if options.json else None
    try:
        os.set_inheritable(descriptor, descriptor <= 2)  # its reader waits for us, not the command
    except OSError:
        raise BadArguments(
            f"--status-fd {descriptor} is not open: open it, as in {descriptor}>status.json"
        ) from None
    return descriptor


def _command(options: argparse.Namespace) -> list[str]:
    if options.line is not None:
        if options.command:
            raise BadArguments("give either -c LINE or -- CMD, not both")
        return [os.environ.get("SHELL") or "/bin/sh", "-c", options.line]
    if not options.command:
        raise BadArguments("no command: write it after --, as in fencelock run NAME -- CMD ARG")
    return list(options.command)


def _plan(how: str, grace: float, ttl: float) -> KillPlan:
    spare, nested = margin(ttl), bool(os.environ.get("FENCELOCK_LEASE_FD"))
    if grace + spare > ttl / 2:
        raise UsageError(
            f"a grace of {brief(grace)} leaves too little of a ttl of {brief(ttl)}: a lease is "
            f"renewed at a third of it, so keep the grace and {brief(spare)} below half of it"
        )
    if how == "term":
        return KillPlan(signal.SIGTERM, True, grace, nested, spare)
    if how == "kill":
        return KillPlan(None, True, 0.0, nested, spare)
    if how == "warn":
        return KillPlan(None, False, 0.0, margin=spare)
    name = how.removeprefix("signal:").upper().removeprefix("SIG")
    if how.startswith("signal:") and f"SIG{name}" in signal.Signals.__members__:
        return KillPlan(signal.Signals[f"SIG{name}"], False, grace, margin=spare)
    raise BadArguments(f"--on-lost is term, kill, warn or signal:NAME, not {how!r}")


def main(options: argparse.Namespace) -> int:
    """Run a command under a lock."""
    return conduct(options, Status(status_fd(options), options.name))


def conduct(options: argparse.Namespace, status: Status) -> int:
    """Run a command under a lock, and fill in and write the status."""
    code = codes.FAILED
    try:
        request = read(options)
        watchdog = Watchdog(request.plan)  # before any thread is started and any engine opened
        try:
            with Signals() as signals:
                code = _Run(request, status, signals, watchdog).main()
        finally:
            watchdog.close()
    except FencelockError as error:
        status.error, code = str(error), codes.of(error)
        raise
    finally:
        status.write(code)
    return code


class _Run:
    """One command under one lock."""

    def __init__(
        self, request: RunRequest, status: Status, signals: Signals, watchdog: Watchdog
    ) -> None:
        self._request = request
        self._status = status
        self._signals = signals
        self._watchdog = watchdog
        self._failing = False
        self._turn: _Turn | None = None

    def main(self) -> int:
        from ..acquisition import announced, check_excludes, reach

        observe.redirect(self._note)  # for good: a warning may come late. Losses are printed below
        unsubscribe = observe.subscribe(self._see)
        try:
            with reach(self._request.options, self._signals) as client:
                check_excludes(client, self._request.options)
                lease = self._acquire(client)
                if isinstance(lease, int):
                    return lease
                if client.traits.portable:  # else the lease ends with this process
                    if self._request.lock.min_hold:
                        until = clock.now() + self._request.lock.min_hold
                        self._watchdog.tell(f"keep {until}")
                    self._watchdog.tell(f"lease {self._release_environment(lease)}")
                if self._request.options.recipe == ELECTION:
                    with announced(client, lease.name, self._signals):
                        return self._hold(lease, client.url)
                return self._hold(lease, client.url)
        except Interrupted as interrupted:
            self._status.outcome = "interrupted"
            return codes.SIGNALLED + interrupted.number
        finally:
            unsubscribe()

    def _acquire(self, client: Client) -> Lease | int:
        """Acquire the lock, or return the exit code that says why not."""
        from ..acquisition import obtain

        started, request = clock.now(), self._request.lock
        if self._request.once_per is not None:
            self._turn = _Turn(client, request.name, self._request.once_per, self._signals)
            if self._turn.is_done():
                return self._skip("was done in this window")
            left = self._turn.left()
            timeout = left if request.timeout is None else min(request.timeout, left)
            request = request._replace(timeout=timeout)
        try:
            lease = obtain(client, request, self._signals)
        except NotAcquired as error:
            if self._turn is not None:
                return self._skip(f"is done by another: {error}")
            self._status.outcome, self._status.error = "not_acquired", str(error)
            if self._request.lock.busy_code != codes.OK:
                self._warn(str(error))
            return self._request.lock.busy_code
        finally:
            self._status.wait_s = clock.now() - started
        if self._turn is not None and not self._turn.is_due():
            self._release(lease, told=False)
            return self._skip("was done in this window")
        self._status.fence, self._status.slot = lease.fence, lease.slot
        self._note(f"acquired {lease.name!r}, fence {lease.fence}, in {brief(self._status.wait_s)}")
        return lease

    def _skip(self, why: str) -> int:
        """Leave the command to others in this window; return the exit code."""
        self._status.outcome = "skipped"
        self._warn(f"skipped, since the work of {self._request.lock.name!r} {why}")
        return codes.OK

    def _hold(self, lease: Lease, engine: str) -> int:
        """Run the command under the lease, release it, and return the exit code."""
        request, status, started = self._request, self._status, clock.now()
        supervisor = Supervisor(
            lease, self._signals, self._watchdog, request.max_runtime, request.grace, self._warn
        )
        try:
            outcome = supervisor.run(request.command, self._environment(lease, engine))
            status.ran(outcome)
        except CannotRun as error:
            self._warn(str(error))
            status.error = str(error)
            outcome = Outcome(error.code)
        status.held_s = clock.now() - started
        if self._turn is not None and outcome == Outcome(codes.OK) and lease:
            try:
                self._turn.remember()
            except FencelockError as error:
                self._warn(str(error))
        self._release(lease, told=outcome.lost_reason is not None)
        status.renewals = lease.renewals
        if lease.reason is not None and outcome.lost_reason is None:
            status.lost_reason = lease.reason
            self._warn(f"the command ended by itself, but its lease was lost: {lease.reason}")
        self._note(f"the command ended with {outcome.code} after {brief(status.held_s)}")
        return outcome.exit_code()

    def _release(self, lease: Lease, told: bool) -> None:
        """Release the lease; print a failure of that unless a loss was reported before."""
        from ..acquisition import give_back

        try:
            give_back(lease, self._signals)
        except FencelockError as error:
            if not told:
                self._warn(str(error))

    def _release_environment(self, lease: Lease) -> str:
        """Return, as JSON, what the watchdog needs to release the lock if we are killed."""
        import json

        from ..lease_token import VARIABLE, grant_of, pack

        return json.dumps({VARIABLE: pack(grant_of(lease)), "FENCELOCK_URL": self._url()})

    def _url(self) -> str:
        return settled_url(self._request.options.url)

    def _environment(self, lease: Lease, engine: str) -> dict[str, str]:
        """Return the command's environment; its URL has the password, so that it can lock too."""
        slot = {} if lease.slot is None else {SLOT: str(lease.slot)}
        return {
            **{key: value for key, value in os.environ.items() if key != SLOT},
            **slot,
            "FENCELOCK_NAME": lease.name,
            "FENCELOCK_FENCE": str(lease.fence),
            "FENCELOCK_TTL": f"{lease.ttl:g}",
            "FENCELOCK_URL": self._url(),
            "FENCELOCK_ENGINE": engine,
            "FENCELOCK_LEASE_FD": str(self._watchdog.lease_pipe),
        }

    def _see(self, event: observe.Event) -> None:
        """Print the first renewal that fails; the supervisor reports a loss."""
        if event.kind == "renew_failed" and not self._failing:
            self._failing = True
            self._warn(
                f"{event.name!r} could not be renewed and is tried again while the lease lasts: "
                f"{event.detail}"
            )

    def _warn(self, message: str) -> None:
        if not self._request.lock.quiet:
            terminal.say(message)

    def _note(self, message: str) -> None:
        if self._request.verbose:
            terminal.say(message)


class _Turn:
    """The window in which a command with ``--once-per`` was started."""

    def __init__(self, client: Client, name: str, every: float, signals: Signals) -> None:
        from ...sync import drive

        self._drive = drive
        self._schedule = client.once(name, every=every)._schedule  # pyright: ignore[reportPrivateUsage]
        self._window = self._schedule.window()
        self._signals = signals

    def left(self) -> float:
        """Return the seconds until the window ends."""
        return self._schedule.left(self._window)

    def is_done(self) -> bool:
        """Return whether the command was done in this window, or in a later one."""
        ask = self._schedule.is_done
        return self._signals.call(lambda: self._drive(ask(self._window)), label="recall")

    def is_due(self) -> bool:
        """Return whether the command is still to be run, now that the lock is held."""
        ask = self._schedule.is_due
        return self._signals.call(lambda: self._drive(ask(self._window)), label="recall")

    def remember(self) -> None:
        """Record that the command ended well, so that nobody runs it again in this window.

        A signal does not interrupt this.
        """
        work, until = self._schedule.remember, clock.now() + REMEMBER_S
        try:
            self._signals.call(
                lambda: self._drive(work(self._window)), until, REMEMBER_S, "remember"
            )
        except (Late, Interrupted):
            raise OutcomeUnknown(
                "the engine does not answer: that the command has ended well may not be written "
                "down, and another may run it again"
            ) from None
