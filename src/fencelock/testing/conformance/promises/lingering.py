"""Check locks that outlive their release, their holder's loss or their process."""

from __future__ import annotations

from ....errors import LeaseLost, SessionEnded, Unsupported
from ..check import check, expect, given, kept_out, refused
from ..context import BRIEF_S, LONG_S, CheckContext, engine_of


@check("portable")
async def a_lease_can_be_handed_over(context: CheckContext) -> None:
    """Whoever has the token of a lease goes on with it, under the same fence, and nobody else."""
    name, giver, taker = context.name(), await context.connect(), await context.connect()
    lease = await giver.lock(name, ttl=LONG_S).acquire()
    token = lease.hand_over()
    await kept_out(taker.lock(name, ttl=LONG_S), "a lock that was handed over is free")
    expect(not lease, "a lease that was handed over still holds")
    error = None
    try:
        lease.check()
    except SessionEnded as raised:
        error = raised
    expect(error is not None, "a lease that was handed over can still be checked")
    expect(not await lease.release(), "a lease that was handed over was released")
    await giver.close()
    taken = await taker.take_over(token)
    taken.check()
    expect(taken.fence == lease.fence and taken.name == name, f"{lease!r} became {taken!r}")
    renewals = taken.renewals
    context.make_due(taker)

    async def renewed() -> bool:
        return taken.renewals > renewals

    await context.until(renewed, "a lease that was taken over must be renewed")
    expect(await taken.release(), "a lease that was taken over could not be released")
    await refused(LeaseLost, taker.take_over(token), "taking over what was released")
    await given(await taker.lock(name, ttl=LONG_S).try_acquire()).release()


@check("portable")
async def a_shortest_hold_outlasts_its_release(context: CheckContext) -> None:
    """A lock with ``min_hold`` that was released is not given away before, then it is."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S, min_hold=LONG_S).acquire()
    expect(await lease.release(), "it was ours, and release() says no")
    expect(not await lease.release(), "it was released twice")
    await kept_out(other.lock(name, ttl=LONG_S), "it was given away before its shortest hold")
    brief = context.name("brief")
    async with client.lock(brief, ttl=LONG_S, min_hold=BRIEF_S) as lease:
        fence = lease.fence
    again = await other.lock(brief, ttl=LONG_S).acquire(timeout=context.timeout)
    expect(again.fence > fence, f"the fence was {fence}, and is {again.fence}")
    await again.release()
    await client.close()
    await kept_out(other.lock(name, ttl=LONG_S), "closing its client ended a shortest hold")


@check()
async def a_lost_lock_is_kept_for_its_delay(context: CheckContext) -> None:
    """With ``delay`` a lock whose holder was lost is not given away at once; a release frees it."""
    dead, client = await context.connect(), await context.connect()
    if engine_of(client).session_bound:
        try:
            client.lock(context.name(), delay=1)
        except Unsupported:
            return
        expect(False, "a lock that ends with its connection was given a delay")
    lock = dead.lock(context.name(), ttl=BRIEF_S * 4, delay=LONG_S)
    lease = await lock.acquire()
    expect(lease.ttl == BRIEF_S * 4, f"the ttl was {BRIEF_S * 4}, and is {lease.ttl}")
    context.crash(dead)
    await context.until_lost(lease)
    rival = client.lock(context.name(), ttl=LONG_S, delay=LONG_S)
    await kept_out(rival, "a lost lock was given away before its delay")
    await lease.release()
    after = given(await rival.try_acquire(timeout=context.timeout), "it was released")
    expect(await after.release(), "a lock with a delay could not be released")
    await given(await rival.try_acquire(), "a lock with a delay was released").release()
