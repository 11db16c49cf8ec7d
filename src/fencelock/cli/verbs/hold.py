"""``fencelock hold NAME``: hold a lock until stdin closes, for programs that keep a pipe open."""

from __future__ import annotations

import argparse
import os
import select
import sys
from typing import TYPE_CHECKING

from ... import observe
from ...errors import NotAcquired
from .. import codes, terminal
from ..options import lock_arguments, lock_request, share_arguments
from ..signals import Signals

if TYPE_CHECKING:
    from ...sync import Lease

TICK_S = 1.0
EPILOG = f"""\
One line on stdout says that the lock is held: "held NAME FENCE", or an object with --json. Close
stdin to release it. Exit code {codes.LOST}: the lease was lost.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    lock_arguments(parser)
    share_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Hold until stdin closes, a signal comes or the lease is lost."""
    from ..acquisition import check_excludes, give_back, obtain, reach, report_busy

    request = lock_request(options)
    observe.redirect(terminal.say if options.verbose else lambda _: None)
    try:
        with Signals() as signals, reach(options, signals) as client:
            check_excludes(client, options)
            lease = obtain(client, request, signals)
            if options.json:
                facts = {"name": lease.name, "fence": lease.fence, "slot": lease.slot}
                terminal.emit({"event": "held", **facts})
            else:
                terminal.out(f"held {lease.name} {lease.fence}")
            if terminal.is_terminal(sys.stdin) and not request.quiet:
                terminal.say("Ctrl-D releases it")
            number = _until_the_end(lease, signals)
            released = give_back(lease, signals)
            if not released or lease.reason is not None:
                lease.check()  # raises: the lease is lost
    except NotAcquired as error:
        return report_busy(error, request, options.json)
    if options.json:
        terminal.emit({"event": "released", "name": request.name, "fence": lease.fence})
    return codes.SIGNALLED + number if number else codes.OK


def _until_the_end(lease: Lease, signals: Signals) -> int:
    """Wait for EOF (0), a signal (its number) or the loss of the lease (0)."""
    while lease:
        ready, _, _ = select.select([0, signals.fileno()], [], [], min(TICK_S, lease.ttl / 4))
        if signals.fileno() in ready and (number := signals.ending()):
            return number
        if 0 in ready and not os.read(0, 65536):
            break
    return 0
