"""Carry a lease from one command of a script to the next, in a variable of the script.

The text is the right to renew and release: it goes to standard output, never to a log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .._client import lease_token
from ..errors import UsageError
from ..model import Grant
from .codes import BadArguments

if TYPE_CHECKING:
    from ..sync import Client, Lease

VARIABLE = "FENCELOCK_LEASE"
SLOT = "FENCELOCK_SLOT"

pack = lease_token.pack


def unpack(text: str) -> Grant:
    """Decode a lease from its text, or raise an error that does not show the text."""
    try:
        return lease_token.unpack(text)[0]
    except UsageError:
        raise BadArguments(
            f"this is not a lease: pass what fencelock acquire printed, or set {VARIABLE} to it"
        ) from None


def given(argument: str | None) -> Grant:
    """Decode the lease in the argument, or without one that in the environment.

    An argument that is empty is a script's variable that is not set: never another lock's lease.
    """
    text = os.environ.get(VARIABLE) if argument is None else argument
    if not text:
        raise BadArguments(
            f'no lease: run eval "$(fencelock acquire NAME --shell)" first, or pass {VARIABLE}'
        )
    return unpack(text)


# A lease belongs to its client, which renews it and releases it when it closes. These are the
# only places where the command line bypasses the public API for that.


def hand_over(client: Client, lease: Lease) -> Grant:
    """Let the lease outlive this process, and return its grant."""
    core, hold = client._core, lease._hold  # pyright: ignore[reportPrivateUsage]
    return core.lifecycle.hand_over(hold)


def grant_of(lease: Lease) -> Grant:
    """Return the grant of a lease that its client still manages."""
    return lease._hold.grant  # pyright: ignore[reportPrivateUsage]


def take_over(client: Client, grant: Grant) -> Lease:
    """Make a lease of a grant that another process handed over."""
    lease: Lease = client._core.take_over(grant)  # pyright: ignore[reportPrivateUsage]
    return lease
