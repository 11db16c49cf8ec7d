"""What ``fencelock run`` was asked to do, read and checked before anything is started."""

from __future__ import annotations

import argparse
import os
import signal
from typing import NamedTuple

from ...errors import UsageError
from .. import codes
from ..clock import brief, seconds
from ..codes import BadArguments
from ..options import LockRequest, lock_arguments, lock_request, number_of, optional
from .kill_plan import MARGIN_S, KillPlan

GRACE_S = 5.0


class RunRequest(NamedTuple):
    """A command line of ``run``, checked."""

    lock: LockRequest
    command: list[str]
    options: argparse.Namespace
    """The same as it was read: which engine is meant."""
    max_runtime: float | None
    plan: KillPlan
    grace: float
    verbose: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options, spelled as by flock(1) where it has them."""
    lock_arguments(parser, lowest_code=0)
    add = parser.add_argument
    add("--skip-ok", action="store_true", help="exit with 0 when the lock is not acquired in time")
    add("--grace", metavar="DUR", help="from TERM to KILL (default 5s, or a quarter of the ttl)")
    add(
        "--on-lost",
        metavar="HOW",
        default="term",
        help="when the lease is lost: term (default), kill, warn, signal:NAME",
    )
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
    lock = lock_request(options, command=os.path.basename(command[0])[:80])
    if options.skip_ok:
        lock = lock._replace(busy_code=codes.OK)
    grace = min(GRACE_S, lock.ttl / 4) if options.grace is None else seconds(options.grace)
    return RunRequest(
        lock=lock._replace(quiet=options.quiet or options.json),
        command=command,
        options=options,
        max_runtime=optional(options.max_runtime),
        plan=_plan(options.on_lost, grace, lock.ttl),
        grace=grace,
        verbose=options.verbose,
    )


def status_fd(options: argparse.Namespace) -> int | None:
    """Where the status goes: what was asked for, stderr with --json, else nowhere."""
    descriptor: int | None = options.status_fd
    if descriptor is None:
        return 2 if options.json else None
    try:
        os.set_inheritable(descriptor, descriptor <= 2)  # its reader waits for us, not for others
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
    if grace + MARGIN_S > ttl / 2:
        raise UsageError(
            f"a grace of {brief(grace)} leaves too little of a ttl of {brief(ttl)}: a lease is "
            f"renewed at a third of it, so keep the grace and {brief(MARGIN_S)} below half of it"
        )
    nested = bool(os.environ.get("FENCELOCK_LEASE_FD"))
    if how == "term":
        return KillPlan(signal.SIGTERM, True, grace, nested)
    if how == "kill":
        return KillPlan(None, True, 0.0, nested)
    if how == "warn":
        return KillPlan(None, False, 0.0)
    name = how.removeprefix("signal:").upper().removeprefix("SIG")
    if how.startswith("signal:") and f"SIG{name}" in signal.Signals.__members__:
        return KillPlan(signal.Signals[f"SIG{name}"], False, grace)
    raise BadArguments(f"--on-lost is term, kill, warn or signal:NAME, not {how!r}")
