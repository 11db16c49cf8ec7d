"""Check waiters: their order, how they are woken, and how they give up."""

from __future__ import annotations

from .... import aio
from ....errors import AcquireTimeout
from ..check import check, expect, kept_out, refused
from ..context import BRIEF_S, LONG_S, CheckContext, Running, engine_of


@check("fifo")
async def waiters_are_served_in_order(context: CheckContext) -> None:
    """Waiters are served in the order of their arrival, across clients."""
    name, clients = context.name(), [await context.connect() for _ in range(3)]
    turns: list[int] = []

    async def take_turn(number: int) -> None:
        async with clients[number % 3].lock(name, ttl=LONG_S, timeout=context.timeout):
            turns.append(number)

    lease = await clients[0].lock(name, ttl=LONG_S).acquire()
    jobs: list[Running[None]] = []
    for number in range(6):
        jobs.append(context.start(take_turn, number))
        await context.until_waiting(name, number + 1)
    await lease.release()
    for job in jobs:
        await job.result()
    expect(turns == sorted(turns), f"waiters 0 to 5 came in order and were served as {turns}")


@check("fifo")
async def a_newcomer_does_not_overtake(context: CheckContext) -> None:
    """A lock that is given back goes to who waits for it, not to who asks next."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    waiter = context.start(rival.lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name)
    await lease.release()
    await kept_out(client.lock(name), "who asked later was served first")
    await (await waiter.result()).release()


@check("push")
async def a_release_wakes_a_waiter(context: CheckContext) -> None:
    """A waiter is told that the lock is free; it does not find out by looking now and then."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    context.record.look_in = LONG_S  # it retries by itself only after the limit below
    for _ in range(3):
        lease = await client.lock(name, ttl=2 * LONG_S).acquire()
        before = context.record.waiting(name)
        waiter = context.start(rival.lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
        await context.until_waiting(name, before + 1)
        await lease.release()
        await (await waiter.result(within=context.timeout / 2)).release()


@check()
async def a_waiter_gets_a_released_lock(context: CheckContext) -> None:
    """A blocked ``acquire`` returns once the lock is given back."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    waiter = context.start(rival.lock(name, ttl=LONG_S).acquire)
    await context.until_waiting(name)
    expect(not waiter.done(), "who must wait was let in")
    await lease.release()
    other = await waiter.result()
    other.check()
    await other.release()


@check()
async def a_waiter_that_timed_out_is_gone(context: CheckContext) -> None:
    """A waiter that times out leaves the queue; the lock goes to the next."""
    name, clients = context.name(), [await context.connect() for _ in range(3)]
    lease = await clients[0].lock(name, ttl=LONG_S).acquire()
    impatient = context.start(clients[1].lock(name, ttl=2 * LONG_S, timeout=BRIEF_S).acquire)
    await context.until_waiting(name, 1)
    patient = context.start(clients[2].lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name, 2)
    await refused(AcquireTimeout, impatient.result(), "waiting for a held lock")

    async def has_left() -> bool:  # true at once, unless the engine does not answer for a while
        return len((await clients[0].inspect(name)).waiters) <= 1

    await context.until(has_left, "one waits and one gave up, and the queue must have one")
    await lease.release()
    await (await patient.result()).release()
    expect((await clients[0].inspect(name)).waiters == (), "the queue must be empty at the end")


@check("fifo")
async def a_waiter_that_does_not_answer_is_passed_over(context: CheckContext) -> None:
    """A dead waiter at the head of the queue holds the others up for one ttl at most."""
    name, clients = context.name(), [await context.connect() for _ in range(3)]
    lease = await clients[0].lock(name, ttl=LONG_S).acquire()
    await context.enqueue(clients[1], context.request(name, ttl=BRIEF_S))  # and never retries
    waiter = context.start(clients[2].lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name, 2)
    await lease.release()
    other = await waiter.result()
    other.check()
    await other.release()


@check()
async def many_waiters_each_get_their_turn(context: CheckContext) -> None:
    """Twenty waiters on four clients are all served, one at a time."""
    name, clients = context.name(), [await context.connect() for _ in range(4)]
    turns: list[int] = []

    async def take_turn(number: int) -> None:
        client: aio.Client = clients[number % 4]
        async with client.lock(name, ttl=LONG_S, timeout=context.timeout) as lease:
            turns.append(lease.fence)

    lease = await clients[0].lock(name, ttl=LONG_S).acquire()
    jobs = [context.start(take_turn, number) for number in range(20)]
    await context.until_waiting(name, len(jobs))
    await lease.release()
    for job in jobs:
        await job.result()
    expect(len(set(turns)) == 20, f"{len(set(turns))} of 20 waiters were served")


@check()
async def an_expired_lock_goes_to_its_waiter(context: CheckContext) -> None:
    """When nobody releases, a waiter still gets the lock once the lease has run out."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    request = context.request(name, ttl=4 * BRIEF_S)  # it is granted although the machine stalls
    await engine_of(client).acquire(request)
    other = await context.start(
        rival.lock(name, ttl=LONG_S, timeout=context.timeout).acquire
    ).result()
    await other.release()


@check()
async def a_waiter_gets_the_lock_of_a_closed_client(context: CheckContext) -> None:
    """Closing a client wakes those who wait for what it held."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    waiter = context.start(rival.lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name)
    await client.close()
    await (await waiter.result()).release()
    expect(not lease, "a lease of a closed client is still true")
