"""``fencelock elect NAME [options] -- CMD ARG…``: run a command while we lead, term after term."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import NoReturn

from ...errors import OutcomeUnknown, Unavailable
from ...model import ELECTION
from .. import codes, terminal
from ..options import lock_arguments
from ..run.status import Status
from . import run

AGAIN = "FENCELOCK_CAMPAIGN"
"""Set in our environment when we campaign again: then an outage of the engine is waited out."""
RETRY_S = 1.0
USAGE = "fencelock elect NAME [options] -- CMD [ARG ...]"
EPILOG = f"""\
The command runs while this process leads, as fencelock run runs it, and is
stopped before the term can end. After a loss we campaign again, and run it
again. When it ends by itself we resign and end with its exit code.
FENCELOCK_FENCE is the epoch: it is higher in every term.

exit codes:
{codes.text()}
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of run, except those that would let a command outlive its term."""
    lock_arguments(parser)
    run.command_arguments(parser)
    parser.set_defaults(skip_ok=False, once_per=None, on_lost="term", recipe=ELECTION)


def main(options: argparse.Namespace) -> int:
    """Lead, run the command, and campaign again when the term was lost."""
    again = os.environ.pop(AGAIN, None) is not None
    status = Status(run.status_fd(options), options.name)
    try:
        code = run.conduct(options, status)
    except (Unavailable, OutcomeUnknown) as error:
        if not again:
            raise  # a wrong address is reported at once
        if not options.quiet and not options.json:
            terminal.say(f"the campaign for {options.name!r} goes on: {error}")
        time.sleep(RETRY_S)
        campaign_again(options)
    if status.outcome == "lost":
        campaign_again(options)
    return code


def campaign_again(options: argparse.Namespace) -> NoReturn:
    """Start this program anew by an exec, as the same process.

    A watchdog is forked before any thread is started and any engine opened, and each term needs its
    own: so the program starts again, without either.
    """
    if options.status_fd is not None:
        os.set_inheritable(options.status_fd, True)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]  # it was closed
            stream.flush()
    os.execve(sys.executable, sys.orig_argv, {**os.environ, AGAIN: "1"})
