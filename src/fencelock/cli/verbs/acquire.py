"""``fencelock acquire NAME``: a lock for a script, which outlives this command."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from ...engines import settled_url
from ...errors import NotAcquired
from ...model import Grant
from .. import codes, terminal
from ..clock import brief
from ..lease_token import SLOT, VARIABLE, grant_of, hand_over, pack
from ..options import lock_arguments, lock_request, share_arguments
from ..signals import Signals

if TYPE_CHECKING:
    from ...sync import Client

EPILOG = f"""\
The lease is not renewed by itself: choose a --ttl that fits, or call fencelock renew in time. It
ends with fencelock release, or after its ttl.

  eval "$(fencelock acquire deploy --ttl 10m --shell)" || exit
  ...
  fencelock release

Without --shell, the lease alone is printed. It is a secret: whoever has {VARIABLE} can release the
lock. With --shell a failure is printed too, as (exit CODE), so that eval does not swallow it.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    lock_arguments(parser)
    share_arguments(parser)
    parser.add_argument("--shell", action="store_true", help="print exports for a POSIX shell")


def main(options: argparse.Namespace) -> int:
    """Acquire the lock, and hand the lease over to the reader of stdout."""
    from ..acquisition import check_excludes, check_portable, obtain, reach, report_busy

    request = lock_request(
        options, pid=os.getppid()
    )  # the script: this process has exited while the lease lasts
    try:
        with Signals() as signals, reach(options, signals) as client:
            check_excludes(client, options)
            check_portable(client, "fencelock acquire", request.ttl)
            lease = obtain(client, request, signals, renew=False)
            check_portable(client, "fencelock acquire", request.ttl)  # now it is known for certain
            _print(options, client, grant_of(lease))  # if nobody reads it, closing releases it
            hand_over(client, lease)
    except NotAcquired as error:
        return report_busy(error, request, options.json)
    return codes.OK


def _print(options: argparse.Namespace, client: Client, grant: Grant) -> None:
    lease, slot = pack(grant), grant.share and grant.share.slot
    if options.json:
        facts = {"name": grant.name, "fence": grant.fence, "slot": slot, "ttl_s": grant.ttl}
        terminal.emit({"url": client.url, **facts, "lease": lease})
    elif options.shell:
        exports = {
            "FENCELOCK_NAME": grant.name,
            "FENCELOCK_FENCE": str(grant.fence),
            "FENCELOCK_TTL": f"{grant.ttl:g}",
            VARIABLE: lease,
        }
        if slot is not None:
            exports[SLOT] = str(slot)
        elif SLOT in os.environ:
            terminal.out(f"unset {SLOT}")  # the slot of another lease
        url = settled_url(options.url)
        if options.url is not None or url != os.environ.get("FENCELOCK_URL", url):
            exports["FENCELOCK_URL"] = url  # renew and release find the same engine
        for key, value in exports.items():
            terminal.out(f"export {key}={shlex.quote(value)}")
    else:
        terminal.out(lease)
    if options.verbose:
        terminal.say(f"acquired {grant.name!r}, fence {grant.fence}, for {brief(grant.ttl)}")
