"""Check the contract of ``engine.py`` for waiters: queue entries, handover, withdrawal."""

from __future__ import annotations

from .... import aio
from ....model import Busy, Grant
from ..check import check, expect
from ..context import LONG_S, CheckContext, core_of, engine_of, grant_of


async def _enqueue_waiters(
    context: CheckContext, client: aio.Client, name: str, count: int
) -> list[str]:
    """Queue some requests and return their owners in order; their watches stay active."""
    owners: list[str] = []
    for _ in range(count):
        request = context.request(name)
        _, answer = await context.enqueue(client, request)
        expect(isinstance(answer, Busy), f"a held lock was granted: {answer!r}")
        owners.append(request.owner)
    return owners


@check("fifo")
async def a_waiter_keeps_its_place(context: CheckContext) -> None:
    """Asked again for the same owner, the engine leaves a waiter where it stands."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    holder = grant_of(await engine_of(client).acquire(context.request(name)))
    requests = [context.request(name) for _ in range(3)]
    for request in requests:
        await context.enqueue(other, request)
    for request in (requests[1], requests[0], requests[1]):
        await engine_of(other).acquire(request._replace(queue=True))
    positions: list[int | None] = []
    for request in requests:
        answer = await engine_of(other).acquire(request._replace(queue=True))
        expect(isinstance(answer, Busy) and answer.queued, f"it is not queued: {answer!r}")
        positions.append(answer.position if isinstance(answer, Busy) else None)
    expect(positions == [0, 1, 2], f"the waiters 0, 1, 2 stand at {positions}")
    waiting = len((await engine_of(client).inspect(name)).waiters)
    expect(waiting == 3, f"3 wait, and the queue has {waiting}")
    await engine_of(client).release(holder)


@check("fifo")
async def withdraw_leaves_the_queue(context: CheckContext) -> None:
    """``withdraw`` takes a waiter out of the queue, and only that one."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    holder = grant_of(await engine_of(client).acquire(context.request(name)))
    request = context.request(name)
    await context.enqueue(other, request)
    (left,) = await _enqueue_waiters(context, other, name, 1)
    await engine_of(other).withdraw(context.request(name))
    waiting = len((await engine_of(client).inspect(name)).waiters)
    expect(waiting == 2, f"a stranger's withdrawal left {waiting} of 2 waiters")
    await engine_of(other).withdraw(request)
    waiting = len((await engine_of(client).inspect(name)).waiters)
    expect(waiting == 1, f"one of 2 waiters withdrew, and the queue has {waiting}")
    await engine_of(client).release(holder)
    answer = await engine_of(other).acquire(request._replace(owner=left, queue=True))
    expect(isinstance(answer, Grant), f"the waiter that stayed was not served: {answer!r}")
    await engine_of(other).withdraw(request._replace(owner=left))


@check("fifo")
async def withdraw_passes_on_what_was_handed_over(context: CheckContext) -> None:
    """A waiter that leaves just when the lock is handed to it passes the lock on."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    holder = grant_of(await engine_of(client).acquire(context.request(name)))
    request = context.request(name)
    await context.enqueue(other, request)
    waiter = context.start(client.lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name, 2)
    await engine_of(client).release(holder)
    await engine_of(other).withdraw(request)
    await (await waiter.result()).release()


@check("push")
async def a_watch_is_told_of_a_release(context: CheckContext) -> None:
    """A release through another client sets the signal of a watch, and the retry is granted."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    holder = grant_of(await engine_of(client).acquire(context.request(name)))
    request = context.request(name)
    signal, answer = await context.enqueue(other, request)
    expect(isinstance(answer, Busy), f"a held lock was granted: {answer!r}")
    signal.clear()
    world = core_of(other).world
    await engine_of(client).release(holder)
    await engine_of(other).wait(signal, world.now() + context.timeout)
    expect(signal.is_set(), "the watch was never told")
    await engine_of(other).unwatch(request)
    grant = grant_of(await engine_of(other).acquire(request._replace(queue=True)))
    expect(grant.fence > holder.fence, "the fence did not grow over a hand-over")
    await engine_of(other).release(grant)


@check("fifo")
async def who_looks_without_queueing_takes_no_place(context: CheckContext) -> None:
    """A request that does not want to be queued is not."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    holder = grant_of(await engine_of(client).acquire(context.request(name)))
    answer = await engine_of(other).acquire(context.request(name))
    expect(isinstance(answer, Busy) and not answer.queued, f"it says {answer!r}")
    expect((await engine_of(client).inspect(name)).waiters == (), "it stands in the queue")
    await engine_of(client).release(holder)
