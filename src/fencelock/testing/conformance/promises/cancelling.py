"""Check that a cancelled acquire leaves nothing behind."""

from __future__ import annotations

import asyncio

from ..check import check, expect, given
from ..context import LONG_S, CheckContext


@check(flavors=("asyncio",))
async def a_cancelled_waiter_is_gone(context: CheckContext) -> None:
    """A cancelled waiter leaves the queue before its task ends, and the next gets the lock."""
    name, clients = context.name(), [await context.connect() for _ in range(3)]
    lease = await clients[0].lock(name, ttl=LONG_S).acquire()
    first = context.start(clients[1].lock(name, ttl=LONG_S).acquire)
    await context.until_waiting(name, 1)
    second = context.start(clients[2].lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name, 2)
    first.cancel()
    await first.end()
    expect(isinstance(first.error, asyncio.CancelledError), f"it ended with {first.error!r}")
    left = len((await clients[0].inspect(name)).waiters)
    expect(left <= 1, f"one waits and one was cancelled, and the queue has {left}")
    await lease.release()
    await (await second.result()).release()


@check(flavors=("asyncio",))
async def a_cancelled_acquire_leaves_no_orphan(context: CheckContext) -> None:
    """Wherever a cancellation strikes, the lock is free once the task has ended."""
    client, rival = await context.connect(), await context.connect()
    for steps in range(15):
        name = context.name(str(steps))
        job = context.start(client.lock(name, ttl=LONG_S).acquire)
        for _ in range(steps):
            await asyncio.sleep(0)
        if job.started():
            job.cancel()
        await job.end()
        if job.error is None:  # it was granted before the cancellation
            await (await job.result()).release()
        else:
            expect(isinstance(job.error, asyncio.CancelledError), f"it raised {job.error!r}")
        why = f"the acquire was cancelled after {steps} steps"
        await given(await rival.lock(name).try_acquire(), why).release()


@check(flavors=("asyncio",))
async def a_time_limit_around_acquire_leaves_no_orphan(context: CheckContext) -> None:
    """``asyncio.wait_for`` around an acquire neither loses a grant nor leaves a waiter."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    for limit in (0.0, 0.001, 0.05):
        try:
            await asyncio.wait_for(rival.lock(name, ttl=LONG_S).acquire(), limit)
        except TimeoutError:
            continue
        expect(False, "a held lock was granted")
    expect((await client.inspect(name)).waiters == (), "who gave up still stands in the queue")
    await lease.release()
    await given(await rival.lock(name).try_acquire(), "nobody waits any more").release()


@check(flavors=("asyncio",))
async def a_cancelled_release_frees_the_lock(context: CheckContext) -> None:
    """A release that is cancelled still frees the lock, or can be repeated until it has."""
    client, rival = await context.connect(), await context.connect()
    for steps in range(10):
        lease = await client.lock(context.name(str(steps)), ttl=LONG_S).acquire()
        job = context.start(lease.release)
        for _ in range(steps):
            await asyncio.sleep(0)
        if job.started():
            job.cancel()
        await job.end()
        await lease.release()
        why = f"its release was cancelled after {steps} steps"
        await given(await rival.lock(lease.name).try_acquire(), why).release()
