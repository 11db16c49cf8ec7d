"""The end of a client, and what outlives it."""

from __future__ import annotations

from ....errors import LeaseLost, UsageError
from ..check import check, expect, given, kept_out, refused
from ..kit import LONG_S, Kit, core_of, engine_of, grant_of


@check()
async def closing_a_client_frees_what_it_holds(kit: Kit) -> None:
    """``close`` gives back all locks of a client, and its leases say that they are over."""
    client, rival = await kit.connect(), await kit.connect()
    names = [kit.name(str(number)) for number in range(3)]
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
async def a_closed_client_says_so(kit: Kit) -> None:
    """A closed client refuses to work with UsageError; closing it again does nothing."""
    client = await kit.connect()
    lock = client.lock(kit.name())
    await client.close()
    await client.close()
    before = kit.record.calls
    await refused(UsageError, lock.acquire(timeout=0), "acquire() of a closed client")
    await refused(UsageError, lock.try_acquire(), "try_acquire() of a closed client")
    await refused(UsageError, client.holders(kit.name()), "holders() of a closed client")
    expect(kit.record.calls == before, "a closed client asked the engine")


@check()
async def a_client_is_closed_by_its_block(kit: Kit) -> None:
    """Leaving the block of a client closes it."""
    rival = await kit.connect()
    async with await kit.connect() as client:
        lease = await client.lock(kit.name(), ttl=LONG_S).acquire()
    expect(not lease, "a lease of a closed client is still true")
    await given(await rival.lock(kit.name()).try_acquire(), "its client closed").release()


@check()
async def closing_one_client_leaves_the_others_alone(kit: Kit) -> None:
    """Clients of one engine do not share their end: the leases of another go on."""
    client, other = await kit.connect(), await kit.connect()
    lease = await other.lock(kit.name(), ttl=LONG_S).acquire()
    await client.close()
    lease.check()
    await lease.renew()
    expect(await lease.release() is True, "closing one client took the lock of another")


@check("durable")
async def a_grant_survives_while_nobody_is_connected(kit: Kit) -> None:
    """A durable engine still knows a hold when its client vanished and all others left."""
    client = await kit.connect()
    grant = grant_of(await engine_of(client).acquire(kit.request(kit.name())))
    kit.crash(client)
    await engine_of(client).close()
    core_of(client).closed = True
    other = await kit.connect()
    (shown,) = await other.holders(kit.name())
    expect(shown.fence == grant.fence, "the hold that is left is another one")
    await kept_out(other.lock(kit.name()), "the hold was forgotten")
    expect(await engine_of(other).release(grant) is True, "its owner could not give it back")
