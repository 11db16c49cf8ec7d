"""What ``fencelock run`` was asked to do, read and checked before anything is started."""

from __future__ import annotations

import argparse
import os
import signal
from typing import NamedTuple

from ..errors import UsageError
from ..model import check_name, check_ttl
from . import codes
from .durations import brief, seconds
from .options import meta_of, number_of
from .watchdog import MARGIN_S, Plan

GRACE_S = 5.0


class Order(NamedTuple):
    """A command line of ``run``, checked."""

    name: str
    command: list[str]
    url: str | None
    ttl: float
    timeout: float | None
    max_runtime: float | None
    plan: Plan
    grace: float
    meta: dict[str, str]
    busy_code: int
    """The exit code when the lock is not had in time."""
    status_fd: int | None
    quiet: bool
    verbose: bool


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options, with flock's spellings where it has them."""
    add = parser.add_argument
    add("name", metavar="NAME", help="what to lock")
    add("-n", "--nonblock", action="store_true", help="do not wait for the lock")
    add("-w", "--wait", metavar="DUR", help="the longest wait for the lock (default: no limit)")
    add(
        "-E",
        "--conflict-exit-code",
        metavar="CODE",
        type=number_of(0, 255),
        default=codes.NOT_ACQUIRED,
        help=f"exit code when the lock is not had in time (default {codes.NOT_ACQUIRED})",
    )
    add("--skip-ok", action="store_true", help="exit 0 when the lock is not had in time")
    add("--ttl", metavar="DUR", default="30s", help="length of the lease (default 30s)")
    add("--grace", metavar="DUR", help="from TERM to KILL (default: 5s, or a quarter of the ttl)")
    add("--on-lost", metavar="HOW", default="term", help="term (default), kill, warn, signal:NAME")
    add("--max-runtime", metavar="DUR", help="stop the command after this long")
    add("--meta", metavar="K=V", action="append", default=[], help="shown to whoever asks")
    add("--status-fd", metavar="N", type=number_of(0, 65535), help="write one JSON object there")
    add("-c", dest="line", metavar="LINE", help="run a line with the shell instead of a command")
    add("-q", "--quiet", action="store_true", help="say nothing")


def read(options: argparse.Namespace) -> Order:
    """Check everything that can be checked without an engine."""
    ttl = check_ttl(seconds(options.ttl), "--ttl")
    grace = min(GRACE_S, ttl / 4) if options.grace is None else seconds(options.grace)
    command = _command(options)
    return Order(
        name=check_name(options.name),
        command=command,
        url=options.url,
        ttl=ttl,
        timeout=0.0 if options.nonblock else _optional(options.wait),
        max_runtime=_optional(options.max_runtime),
        plan=_plan(options.on_lost, grace, ttl),
        grace=grace,
        meta={"command": " ".join(command)[:200], **meta_of(options.meta)},
        busy_code=codes.OK if options.skip_ok else options.conflict_exit_code,
        status_fd=_open_fd(options.status_fd),
        quiet=options.quiet,
        verbose=options.verbose,
    )


def _optional(text: str | None) -> float | None:
    return None if text is None else seconds(text)


def _command(options: argparse.Namespace) -> list[str]:
    if options.line is not None:
        if options.command:
            raise UsageError("give either -c LINE or -- CMD, not both")
        return [os.environ.get("SHELL") or "/bin/sh", "-c", options.line]
    if not options.command:
        raise UsageError("no command: write it after --, as in fencelock run NAME -- CMD ARG")
    return list(options.command)


def _plan(how: str, grace: float, ttl: float) -> Plan:
    if grace + MARGIN_S > ttl / 2:
        raise UsageError(
            f"a grace of {brief(grace)} leaves too little of a ttl of {brief(ttl)}: "
            "a lease is renewed at a third of it, so keep the grace well below half"
        )
    if how == "term":
        return Plan(signal.SIGTERM, True, grace)
    if how == "kill":
        return Plan(None, True, 0.0)
    if how == "warn":
        return Plan(None, False, 0.0)
    name = how.removeprefix("signal:").upper().removeprefix("SIG")
    if how.startswith("signal:") and f"SIG{name}" in signal.Signals.__members__:
        return Plan(signal.Signals[f"SIG{name}"], False, grace)
    raise UsageError(f"--on-lost is term, kill, warn or signal:NAME, not {how!r}")


def _open_fd(descriptor: int | None) -> int | None:
    if descriptor is not None:
        try:
            os.fstat(descriptor)
        except OSError:
            raise UsageError(f"--status-fd {descriptor} is not open: as in 3>status.json") from None
    return descriptor
