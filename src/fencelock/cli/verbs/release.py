"""``fencelock release [LEASE]``: release a lock of a script."""

from __future__ import annotations

import argparse

from ...errors import LeaseLost
from .. import codes, terminal
from ..lease_token import VARIABLE, given, take_over
from ..options import connected

EPILOG = f"""\
LEASE is what fencelock acquire printed; without it {VARIABLE} is read. Exit code {codes.LOST}: the
lease was lost before, and another may have held the lock since.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lease", metavar="LEASE", nargs="?", help=f"default: {VARIABLE}")


def main(options: argparse.Namespace) -> int:
    """Release the lease; LeaseLost if it was over before."""
    grant = given(options.lease)
    with connected(options) as client:
        freed = take_over(client, grant).release()
    if options.json:
        terminal.emit({"name": grant.name, "fence": grant.fence, "released": freed})
    if not freed:
        raise LeaseLost(
            f"the lease on {grant.name!r} (fence {grant.fence}) was over before its release: "
            "another may have held the lock since"
        )
    if options.verbose:
        terminal.say(f"released {grant.name!r}")
    return codes.OK
