"""Connections that a test has broken."""

from __future__ import annotations

from fencelock import OutcomeUnknown, Unavailable, aio


async def renew_anew(lease: aio.Lease) -> None:
    """Renew by hand where the link may be dead: the first request may only find that out."""
    try:
        await lease.renew()
    except (OutcomeUnknown, Unavailable):
        await lease.renew()
