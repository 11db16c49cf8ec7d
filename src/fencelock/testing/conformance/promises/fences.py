"""Check that fences only grow."""

from __future__ import annotations

from itertools import pairwise

from .... import aio
from ....model import FENCE_MAX
from ..check import check, expect, given
from ..context import LONG_S, CheckContext


def _grew(before: int, after: int, over: str) -> None:
    expect(after > before, f"the fence went from {before} to {after} over {over}: it must grow")


@check("fence")
async def fences_grow_across_releases(context: CheckContext) -> None:
    """Every grant of a name has a higher fence than all before it, whoever asks."""
    clients = [await context.connect(), await context.connect()]
    last = 0
    for turn in range(6):
        async with clients[turn % 2].lock(context.name(), ttl=LONG_S) as lease:
            _grew(last, lease.fence, "a release")
            last = lease.fence


@check("fence")
async def fences_grow_across_expiry(context: CheckContext) -> None:
    """The grant after one that ran out has a higher fence."""
    client, rival = await context.connect(), await context.connect()
    lease = await context.brief_lease(client)
    async with rival.lock(context.name(), ttl=LONG_S, timeout=context.timeout) as after:
        _grew(lease.fence, after.fence, "an expiry")
        expect(lease.lost.is_set(), "another holds what has run out, and the lease does not know")


@check("fence", "revoke")
async def fences_grow_across_revocation(context: CheckContext) -> None:
    """The grant after one that was revoked has a higher fence."""
    client, rival = await context.connect(), await context.connect()
    lease = await client.lock(context.name(), ttl=LONG_S).acquire()
    expect(await rival.revoke(context.name(), "to see the next fence"), "revoke found no holder")
    async with rival.lock(context.name(), ttl=LONG_S, timeout=context.timeout) as after:
        _grew(lease.fence, after.fence, "a revocation")
    expect(await lease.release() is False, "a revoked lease freed something")


@check("fence")
async def fences_grow_across_clients(context: CheckContext) -> None:
    """Closing every client and connecting again does not take a fence back."""
    last = 0
    for _ in range(3):
        client = await context.connect()
        lease = await client.lock(context.name(), ttl=LONG_S, timeout=context.timeout).acquire()
        _grew(last, lease.fence, "a new client")
        last = lease.fence
        await client.close()


@check("fence")
async def fences_grow_along_the_queue(context: CheckContext) -> None:
    """A lock that passes from waiter to waiter gets a higher fence each time."""
    name, clients = context.name(), [await context.connect(), await context.connect()]
    fences: list[int] = []

    async def take_turn(client: aio.Client) -> None:
        async with client.lock(name, ttl=LONG_S, timeout=context.timeout) as lease:
            fences.append(lease.fence)

    first = await clients[0].lock(name, ttl=LONG_S).acquire()
    fences.append(first.fence)
    jobs = [context.start(take_turn, clients[number % 2]) for number in range(4)]
    await context.until_waiting(name, len(jobs))
    await first.release()
    for job in jobs:
        await job.result()
    for before, after in pairwise(fences):
        _grew(before, after, "a hand-over")


@check("fence")
async def a_fence_stays_while_its_lease_lasts(context: CheckContext) -> None:
    """Renewal and re-entry keep the fence: one hold, one number."""
    client = await context.connect()
    lock = client.lock(context.name(), ttl=LONG_S, reentrant=True)
    lease = await lock.acquire()
    fence = lease.fence
    for _ in range(3):
        await lease.renew()
        expect(lease.fence == fence, "a renewal changed the fence")
    async with lock as inner:
        expect(inner.fence == fence, "a re-entry changed the fence")
    (shown,) = await client.holders(context.name())
    expect(shown.fence == fence, f"the holder has fence {fence}, others see {shown.fence}")
    await lease.release()


@check("fence")
async def fences_fit_where_numbers_go(context: CheckContext) -> None:
    """A fence is a positive integer below 2**53: JSON and doubles carry it exactly."""
    client = await context.connect()
    lease = given(await client.lock(context.name(), ttl=LONG_S).try_acquire())
    expect(type(lease.fence) is int, f"a fence is an int, not {lease.fence!r}")
    expect(0 < lease.fence <= FENCE_MAX, f"{lease.fence} is not between 1 and 2**53 - 1")
    await lease.release()
