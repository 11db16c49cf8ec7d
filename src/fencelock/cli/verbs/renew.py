"""``fencelock renew [LEASE]``: renew a lock of a script."""

from __future__ import annotations

import argparse

from ..._client.validation import check_ttl
from .. import codes, terminal
from ..clock import brief
from ..lease_token import VARIABLE, given, hand_over, take_over
from ..options import connected, optional

EPILOG = f"""\
LEASE is what fencelock acquire printed; without it {VARIABLE} is read. Exit code {codes.LOST}: the
lease is lost, and another may hold the lock.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lease", metavar="LEASE", nargs="?", help=f"default: {VARIABLE}")
    parser.add_argument("--ttl", metavar="DUR", help="how long from now (default: as acquired)")


def main(options: argparse.Namespace) -> int:
    """Renew the lease; LeaseLost if it is lost."""
    from ... import observe

    grant, ttl = given(options.lease), optional(options.ttl)
    ttl = grant.ttl if ttl is None else check_ttl(ttl, "--ttl")
    observe.redirect(lambda _: None)  # a loss is an error here, and printed once
    with connected(options) as client:
        lease = take_over(client, grant._replace(ttl=ttl))
        lease.renew()
        left, asked, ttl = lease.remaining(), ttl, lease.ttl
        hand_over(client, lease)
    if ttl < asked:
        terminal.say(
            f"renewed {grant.name!r} for {brief(ttl)} only: its engine keeps no lease longer"
        )
    if options.json:
        facts = {"name": grant.name, "fence": grant.fence, "ttl_s": ttl}
        terminal.emit({**facts, "remaining_s": round(left, 6)})
    elif options.verbose:
        terminal.say(f"renewed {grant.name!r} for {brief(ttl)}")
    return codes.OK
