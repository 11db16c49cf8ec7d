"""Pack a lease into a text that a script carries from one command to the next, and unpack it.

The text holds the owner id and is therefore the right to renew and release: who has it has the
lock. It goes to a variable of the script, never to a log.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import TYPE_CHECKING

from .._client.validation import check_name, check_ttl
from ..model import Grant, check_fence
from .codes import BadArguments

if TYPE_CHECKING:
    from ..sync import Client, Lease

VARIABLE = "FENCELOCK_LEASE"
_PREFIX = "fl1."


def pack(grant: Grant) -> str:
    """The text for a script: only letters, digits, ``-``, ``_`` and ``.``."""
    facts = json.dumps([grant.name, grant.owner, grant.fence, grant.ttl], separators=(",", ":"))
    return _PREFIX + base64.urlsafe_b64encode(facts.encode()).decode().rstrip("=")


def unpack(text: str) -> Grant:
    """Read the text, or say that it is none; never show it."""
    body = text.strip().removeprefix(_PREFIX)
    try:
        name, owner, fence, ttl = json.loads(
            base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        )
        if not isinstance(owner, str) or not text.strip().startswith(_PREFIX):
            raise BadArguments
        return Grant(check_name(name), owner, check_fence(fence), check_ttl(ttl), 0.0, 0.0)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        raise BadArguments(
            f"this is not a lease: pass what fencelock acquire printed, or set {VARIABLE} to it"
        ) from None


def given(argument: str | None) -> Grant:
    """The lease of the argument, else that of the environment."""
    text = argument or os.environ.get(VARIABLE)
    if not text:
        raise BadArguments(
            f'no lease: run eval "$(fencelock acquire NAME --shell)" first, or pass {VARIABLE}'
        )
    return unpack(text)


# A lease belongs to its client, which renews it and releases it when it closes. These are the
# only places where the command line reaches behind the public face for that.


def hand_over(client: Client, lease: Lease) -> Grant:
    """Let the lease outlive this process."""
    core, hold = client._core, lease._hold  # pyright: ignore[reportPrivateUsage]
    return core.lifecycle.hand_over(hold)


def grant_of(lease: Lease) -> Grant:
    """The grant of a lease that its client goes on to look after."""
    return lease._hold.grant  # pyright: ignore[reportPrivateUsage]


def take_over(client: Client, grant: Grant) -> Lease:
    """Make a lease of what another process handed over."""
    lease: Lease = client._core.take_over(grant)  # pyright: ignore[reportPrivateUsage]
    return lease
