"""Check what ends with a client when it is closed, and what outlives it."""

from __future__ import annotations

from ....errors import LeaseLost, UsageError
from ..check import check, expect, given, kept_out, refused
from ..context import LONG_S, CheckContext, core_of, engine_of, grant_of


@check()
async def closing_a_client_frees_what_it_holds(context: CheckContext) -> None:
    """``close`` gives back all locks of a client, and its leases say that they are over."""
    client, rival = await context.connect(), await context.connect()
    names = [context.name(str(number)) for number in range(3)]
    leases = [await client.lock(name, ttl=LONG_S).acquire() for name in names]
    await client.close()
    for lease in leases:
        await given(await rival.lock(lease.name).try_acquire(), "its client closed").release()
        expect(not lease, "a lease of a closed client is still true")

        async def look(check: object = lease.check) -> None:
            assert callable(check)
            check()

        await refused(LeaseLost, look(), "check() after its client was closed")


@check()
async def a_closed_client_says_so(context: CheckContext) -> None:
    """A closed client refuses to work with UsageError; closing it again does nothing."""
    client = await context.connect()
    lock = client.lock(context.name())
    await client.close()
    await client.close()
    before = context.record.calls
    await refused(UsageError, lock.acquire(timeout=0), "acquire() of a closed client")
    await refused(UsageError, lock.try_acquire(), "try_acquire() of a closed client")
    await refused(UsageError, client.holders(context.name()), "holders() of a closed client")
    expect(context.record.calls == before, "a closed client asked the engine")


@check()
async def a_client_is_closed_by_its_block(context: CheckContext) -> None:
    """Leaving the block of a client closes it."""
    rival = await context.connect()
    async with await context.connect() as client:
        lease = await client.lock(context.name(), ttl=LONG_S).acquire()
    expect(not lease, "a lease of a closed client is still true")
    await given(await rival.lock(context.name()).try_acquire(), "its client closed").release()


@check()
async def closing_one_client_leaves_the_others_alone(context: CheckContext) -> None:
    """Clients of one engine do not share their end: the leases of another go on."""
    client, other = await context.connect(), await context.connect()
    lease = await other.lock(context.name(), ttl=LONG_S).acquire()
    await client.close()
    lease.check()
    await lease.renew()
    expect(await lease.release() is True, "closing one client took the lock of another")


@check("durable")
async def a_grant_survives_while_nobody_is_connected(context: CheckContext) -> None:
    """A durable engine still knows a hold when its client vanished and all others left."""
    client = await context.connect()
    grant = grant_of(await engine_of(client).acquire(context.request(context.name())))
    context.crash(client)
    await engine_of(client).close()
    core_of(client).closed = core_of(client).is_let_go = True
    other = await context.connect()
    (shown,) = await other.holders(context.name())
    expect(shown.fence == grant.fence, "the hold that is left is another one")
    await kept_out(other.lock(context.name()), "the hold was forgotten")
    expect(await engine_of(other).release(grant) is True, "its owner could not give it back")
