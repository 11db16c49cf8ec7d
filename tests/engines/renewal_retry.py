"""Renews while the servers are in trouble, for the tests of engines that survive it."""

from __future__ import annotations

from fencelock import OutcomeUnknown, Unavailable, aio
from tests.faults.flavors import Lab

NAP_S = 0.05


async def until_renewed(lab: Lab, lease: aio.Lease) -> None:
    """Renew as soon as somebody serves it. The lease holds all the time, or this raises."""
    while True:
        lease.check()
        try:
            return await lease.renew()
        except (Unavailable, OutcomeUnknown):
            await lab.let_pass(NAP_S)
