"""Check that a lease either holds or says that it does not."""

from __future__ import annotations

from .... import aio
from ....errors import Expired, LeaseLost, Revoked, SessionEnded, Unavailable
from ..check import Broken, check, expect, give_back, given, kept_out, refused
from ..context import BRIEF_S, LONG_S, SLOW_S, CheckContext, core_of


@check()
async def renewal_keeps_a_lease_past_its_ttl(context: CheckContext) -> None:
    """A lease is renewed in the background for as long as the work lasts."""
    for ttl in (0.8, 5.0):  # the longer one only after a stall, which is not the engine's fault
        if await _is_kept(context, context.name(str(ttl)), ttl):
            return
    raise Broken("the machine stood still twice, for longer than a renewal can be late")


async def _is_kept(context: CheckContext, name: str, ttl: float) -> bool:
    """Return whether a lease outlives its ttl twice; False if it was lost in a stall."""
    client, rival = await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=ttl).acquire()
    before = context.world.now()
    over = before + 2.1 * lease.ttl  # an engine may grant a longer ttl than requested
    stalled = False
    while before < over:
        await context.breathe(0.1)
        shut_out = await rival.lock(name).try_acquire()
        now = context.world.now()
        stalled = stalled or now - before > lease.ttl / 4  # the keeper may have stalled longer
        before = now
        if shut_out is not None:
            await give_back(shut_out)
        if not lease and (stalled or "could not be renewed" in (lease.reason or "")):
            return False  # the server may have stalled as well
        lease.check()
        expect(shut_out is None, "another got in meanwhile")
    expect(await lease.release() is True, "the lease was renewed, and yet not ours")
    return True


def _expect_its_end(error: LeaseLost) -> None:
    """Expect that a lease was not renewed. The session that carried it may have ended with it: a
    process that stood still hears that before it looks at its clock."""
    expect(isinstance(error, Expired | SessionEnded), f"a lease that was not renewed: {error!r}")


@check()
async def an_unrenewed_lease_ends_and_says_so(context: CheckContext) -> None:
    """Without renewal a lease is lost when its ttl is over, and everything about it says so."""
    client, rival = await context.connect(), await context.connect()
    lease = await context.brief_lease(client)
    expect(lease.ttl >= BRIEF_S, "a lease is shorter than was asked")
    expect(lease.remaining() <= lease.ttl, "a lease claims more time than its ttl")
    await context.until_lost(lease)
    expect(lease.lost.is_set(), "lost must stay set")
    expect(lease.reason, "a lost lease must say why")
    expect(lease.remaining() == 0, "a lost lease has no time left")
    expect(not lease, "a lost lease must be false")

    async def look() -> None:
        lease.check()

    error = await refused(LeaseLost, look(), "check() of a lost lease")
    _expect_its_end(error)
    facts = (error.name, error.fence, error.reason)
    expect(facts == (lease.name, lease.fence, lease.reason), f"{error!r} tells other facts")
    await refused(LeaseLost, lease.renew(), "renew() of a lost lease")
    async with rival.lock(context.name(), ttl=LONG_S, timeout=context.timeout):
        expect(await lease.release() is False, "a lost lease freed something")


@check()
async def the_holder_knows_before_the_engine_does(context: CheckContext) -> None:
    """A holder stops believing in its lease before another can have the lock."""
    client, rival = await context.connect(), await context.connect()
    lease = await context.brief_lease(client)
    async with rival.lock(context.name(), ttl=LONG_S, timeout=context.timeout):
        expect(not lease, "two leases on one name were true at once")
    await lease.release()


@check()
async def leaving_a_lost_block_raises(context: CheckContext) -> None:
    """A block whose lease was lost raises LeaseLost on leaving, and frees nothing of another's."""
    client, rival = await context.connect(), await context.connect()

    async def outlive() -> None:
        async with await context.brief_lease(client) as lease:
            await lease.lost.wait(context.timeout)

    error = await refused(LeaseLost, outlive(), "a block that outlived its lease")
    _expect_its_end(error)
    expect(error.name == context.name(), f"{error!r} names another lock")
    await given(await rival.lock(context.name()).try_acquire(timeout=context.timeout)).release()


@check()
async def an_error_of_the_body_is_not_hidden(context: CheckContext) -> None:
    """When the body raises and the lease is lost too, the body's error is what comes out."""
    client = await context.connect()

    async def stumble() -> None:
        async with await context.brief_lease(client) as lease:
            try:
                await lease.lost.wait(context.timeout)
            finally:  # asyncio cancels the body where it waits
                raise KeyError("of the body")

    await refused(KeyError, stumble(), "a lost block whose body raises")


@check()
async def max_hold_ends_a_renewed_lease(context: CheckContext) -> None:
    """However often it is renewed, a lease ends at its ``max_hold``, and says that this is why."""
    client, rival = await context.connect(), await context.connect()
    reason = await _reason_after(context, client, BRIEF_S)
    if reason is None or "max_hold" not in reason:  # it may be that the machine stood still for it
        reason = await _reason_after(context, client, SLOW_S)
    expect("max_hold" in (reason or ""), f"the reason {reason!r} hides the max_hold")
    await given(await rival.lock(context.name()).try_acquire(timeout=context.timeout)).release()


async def _reason_after(context: CheckContext, client: aio.Client, max_hold: float) -> str | None:
    """Return why a lease with a ``max_hold`` was lost; None if its grant came later than that."""
    try:
        lease = await client.lock(context.name(), ttl=LONG_S, max_hold=max_hold).acquire()
    except Unavailable:
        return None
    expect(lease.remaining() <= max_hold, "a lease claims more time than its max_hold")
    await context.until_lost(lease)
    return lease.reason


@check()
async def on_lost_is_called_once(context: CheckContext) -> None:
    """The callback is called once, with the error, however often the lease is checked."""
    client = await context.connect()
    told: list[LeaseLost] = []
    lease = await context.brief_lease(client, told.append)
    await context.until_lost(lease)

    async def called() -> bool:
        return bool(told)

    await context.until(called, "on_lost must be called")
    expect(lease.lost.is_set(), "a lost lease must stay lost")
    await lease.release()
    await client.close()
    expect(len(told) == 1, f"on_lost was called {len(told)} times")
    _expect_its_end(told[0])
    expect((told[0].name, told[0].fence) == (lease.name, lease.fence), "it names another lease")


@check("revoke")
async def a_revoked_holder_is_told(context: CheckContext) -> None:
    """Revoking frees the lock at once; its holder is told so and why when it renews."""
    client, rival = await context.connect(), await context.connect()
    lease = await client.lock(context.name(), ttl=LONG_S).acquire()
    expect(await rival.revoke(context.name(), "wanted elsewhere") is True, "revoke found no holder")
    other = given(await rival.lock(context.name(), ttl=LONG_S).try_acquire(), "it was revoked")
    expect(other.fence > lease.fence, "the fence did not grow over a revocation")
    context.make_due(client)
    await context.until_lost(lease)
    expect(lease.reason == "wanted elsewhere", f"the holder was told {lease.reason!r}")

    async def look() -> None:
        lease.check()

    await refused(Revoked, look(), "check() of a revoked lease")
    expect(await lease.release() is False, "a revoked lease freed something")
    other.check()
    await other.release()


@check("revoke")
async def revoking_a_free_lock_says_so(context: CheckContext) -> None:
    """``revoke`` is False when nobody holds the lock, and does no harm."""
    client = await context.connect()
    expect(await client.revoke(context.name(), "just in case") is False, "revoke found a holder")
    async with client.lock(context.name(), ttl=LONG_S) as lease:
        lease.check()
    expect(await client.revoke(context.name(), "just in case") is False, "revoke found a holder")


@check()
async def releasing_a_lost_lease_harms_nobody(context: CheckContext) -> None:
    """A holder that comes back late cannot free the lock of the one who has it now."""
    client, rival = await context.connect(), await context.connect()
    lease = await context.brief_lease(client)
    other = given(await rival.lock(context.name(), ttl=LONG_S).try_acquire(timeout=context.timeout))
    expect(await lease.release() is False, "a lost lease says that it freed the lock")
    (shown,) = await rival.holders(context.name())
    expect(shown.fence == other.fence, "the late release took the lock from its new holder")
    await kept_out(client.lock(context.name()), "the lock was free after it")
    expect(await other.release() is True, "the new holder could not give its lock back")


@check()
async def a_lock_can_be_used_again_after_a_loss(context: CheckContext) -> None:
    """A Lock holds no state: after a loss it gives a fresh lease with a fresh fence."""
    client = await context.connect()
    brief = 4 * BRIEF_S  # it is granted although the machine stalls
    lock = client.lock(context.name(), ttl=brief, renew=False, timeout=context.timeout)
    lost = await lock.acquire()
    await context.until_lost(lost)
    fresh = await lock.acquire()
    expect(fresh != lost and fresh.fence > lost.fence, "the lock gave its old lease again")
    expect(await lost.release() is False, "the old lease freed the new one")
    await fresh.release()


@check()
async def a_crashed_holder_frees_the_lock_within_its_ttl(context: CheckContext) -> None:
    """When a holder dies its lock goes to a blocked waiter as soon as the ttl is over."""
    client, rival = await context.connect(), await context.connect()
    lease = await client.lock(context.name(), ttl=1.0).acquire()
    waiter = context.start(rival.lock(context.name(), ttl=LONG_S, timeout=context.timeout).acquire)

    async def waits() -> bool:  # or has the lock already, if the machine stalled for a ttl
        return context.record.waiting(context.name()) > 0 or waiter.done()

    await context.until(waits, "a waiter must ask")
    context.crash(client)
    other = await waiter.result()
    expect(lease.lost.is_set(), "the dead holder's lease still holds")
    await other.release()


@check()
async def renewing_by_hand_extends_the_lease(context: CheckContext) -> None:
    """``renew(ttl=...)`` gives the lease a new length from now on."""
    client = await context.connect()
    lease = await client.lock(context.name(), ttl=LONG_S, renew=False).acquire()
    await lease.renew(ttl=2 * LONG_S)
    expect(lease.ttl == 2 * LONG_S, f"the lease says that its ttl is {lease.ttl}")
    expect(lease.remaining() > LONG_S, "the lease has no more time than before")
    (shown,) = await client.holders(context.name())
    expect(shown.remaining > LONG_S, "the engine gave no more time than before")
    await lease.release()


@check()
async def one_client_renews_many_leases(context: CheckContext) -> None:
    """All leases of a client are kept, also when there are many and one of them is given back."""
    client, rival = await context.connect(), await context.connect()
    locks = [client.lock(context.name(str(number)), ttl=LONG_S) for number in range(20)]
    leases = [await lock.acquire() for lock in locks]
    await leases.pop(7).release()
    tenures = core_of(client).keeper.held()
    context.make_due(client)

    async def renewed() -> bool:
        return all(tenure.renewals > 0 for tenure in tenures)

    await context.until(renewed, "all leases must be renewed")
    for lease in leases:
        lease.check()
        await kept_out(rival.lock(lease.name), f"{lease!r} is not held")
        await lease.release()
