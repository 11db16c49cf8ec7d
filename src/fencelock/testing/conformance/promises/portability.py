"""Check grants that are tied to no client: any client that knows the owner can continue them."""

from __future__ import annotations

from collections.abc import Sequence

from .... import aio
from ...._client.lock_options import READ, WRITE
from ....engine import Engine
from ....model import Busy, Grant, Request, Share
from ....world import Signal
from ..check import check, expect
from ..context import LONG_S, CheckContext, busy_of, core_of, engine_of, grant_of

SLOT = Share("semaphore", 1, 2)


def _request(context: CheckContext, share: Share | None) -> Request:
    """Return a request for a name that is used with this share only."""
    role = "lock" if share is None else f"{share.kind}-{share.units}"
    return context.request(context.name(role))._replace(share=share)


async def _remaining(engine: Engine, grant: Grant) -> float:
    """Return how many seconds the engine leaves a grant to its holder."""
    holders = (await engine.inspect(grant.name)).holders
    found = [holder.remaining for holder in holders if holder.fence == grant.fence]
    expect(len(found) == 1, f"one holds {grant.name!r} with its fence, and {len(found)} are shown")
    return found[0]


async def _renew_and_release_elsewhere(context: CheckContext, share: Share | None) -> None:
    ours, theirs = engine_of(await context.connect()), engine_of(await context.connect())
    grant = grant_of(await ours.acquire(_request(context, share)))
    (longer,) = await theirs.renew([grant._replace(ttl=2 * LONG_S)])
    expect(
        isinstance(longer, Grant) and longer.fence == grant.fence and longer.share == grant.share,
        f"{grant!r} was renewed through another client, and became {longer!r}",
    )
    left = await _remaining(ours, grant)
    expect(left > LONG_S, f"the renewal through another client left it {left} s")
    (again,) = await ours.renew([grant._replace(ttl=4 * LONG_S)])
    expect(isinstance(again, Grant), f"its own client could not renew it any more: {again!r}")
    left = await _remaining(theirs, grant)
    expect(left > 2 * LONG_S, f"the renewal through its own client left it {left} s")
    expect(await theirs.release(grant), "another client could not release it")
    expect(not await ours.release(grant), "it was released twice")
    (late,) = await ours.renew([grant])
    expect(not isinstance(late, Grant), "what another client released was renewed")
    expect(await _is_free(ours, context, share), "another client did not free it")


async def _is_free(engine: Engine, context: CheckContext, share: Share | None) -> bool:
    """Return whether nobody holds the name; the grants of the test are withdrawn."""
    requests = [_request(context, share) for _ in range(SLOT.limit if share == SLOT else 1)]
    answers = [await engine.acquire(request) for request in requests]
    for request in requests:
        await engine.withdraw(request)
    return all(isinstance(answer, Grant) for answer in answers)


@check("portable")
async def another_client_renews_and_releases_a_grant(context: CheckContext) -> None:
    """A client that knows the owner of a lock renews and releases it for another."""
    await _renew_and_release_elsewhere(context, None)


@check("portable", "shared")
async def another_client_renews_and_releases_a_share(context: CheckContext) -> None:
    """A client that knows the owner of a share renews and releases it for another."""
    for share in (SLOT, READ, WRITE):
        await _renew_and_release_elsewhere(context, share)


async def _request_again(context: CheckContext, share: Share | None) -> None:
    ours, theirs = await context.connect(), await context.connect()
    request = _request(context, share)
    first = grant_of(await engine_of(ours).acquire(request))
    longer = request
    third = await context.connect()
    for client, ways in ((theirs, (False, True)), (ours, (False, True)), (third, (True, False))):
        for queue in ways:
            longer = longer._replace(ttl=longer.ttl + LONG_S)
            before = context.world.now()
            again = grant_of(await engine_of(client).acquire(longer._replace(queue=queue)))
            expect(
                again.fence == first.fence and again.share == first.share,
                f"{first!r} was asked for again, and became {again!r}",
            )
            expect(again.asked_at >= before, "its time is not counted from then")
            left = await _remaining(engine_of(client), again)
            expect(left > longer.ttl - LONG_S, f"asked for again for {longer.ttl} s, it has {left}")
    expect(await engine_of(theirs).release(first), "it was not held after all")
    free = await _is_free(engine_of(ours), context, share)
    expect(free, "it was granted more than once, and freed once")


@check("portable")
async def a_grant_asked_for_again_lasts_a_whole_ttl(context: CheckContext) -> None:
    """Asked for again by its owner, through any client, a lock has its whole ttl from then."""
    await _request_again(context, None)


@check("portable", "claims", "shared")
async def a_share_asked_for_again_lasts_a_whole_ttl(context: CheckContext) -> None:
    """Asked for again by its owner, through any client, a share has its whole ttl from then."""
    for share in (SLOT, READ, WRITE):
        await _request_again(context, share)


async def _wait_elsewhere(context: CheckContext, share: Share | None) -> None:
    """Queue three through one client, then the last two of them through another."""
    client, one, other = [await context.connect() for _ in range(3)]
    units = 2 if share == SLOT else 1
    held = [
        grant_of(await engine_of(client).acquire(_request(context, share))) for _ in range(units)
    ]
    requests = [_request(context, share) for _ in range(3)]
    for request in requests:
        _, answer = await context.enqueue(one, request)
        expect(isinstance(answer, Busy), f"what is held was granted: {answer!r}")
    signals = dict[str, Signal]()
    for request in (requests[2], requests[1]):
        signals[request.owner], answer = await context.enqueue(other, request)
        expect(isinstance(answer, Busy) and answer.queued, f"it is not queued: {answer!r}")
    positions = await _positions(other, requests[1:])
    expect(positions == [1, 2], f"the waiters 1, 2 stand at {positions}")
    waiting = len((await engine_of(client).inspect(requests[0].name)).waiters)
    expect(waiting == 3, f"3 wait, and the queue has {waiting}")
    await engine_of(one).withdraw(requests[0])
    await engine_of(one).unwatch(requests[0])
    for request in requests[1:]:
        signal = signals[request.owner]
        signal.clear()
        await _positions(other, [request])  # it retries, since it may have been woken before
        await engine_of(client).release(held.pop(0))
        await engine_of(other).wait(signal, core_of(other).world.now() + context.timeout)
        expect(signal.is_set(), "a waiter that had asked through another client was not woken")
        grant = grant_of(await engine_of(other).acquire(request._replace(queue=True)))
        for asked in (one, other):
            await engine_of(asked).unwatch(request)
        held.append(grant)
    for grant in held:
        expect(await engine_of(one).release(grant), "a waiter's grant could not be released")
    expect(await _is_free(engine_of(client), context, share), "somebody was served twice")


async def _positions(client: aio.Client, requests: Sequence[Request]) -> list[int | None]:
    answers = [
        await engine_of(client).acquire(request._replace(queue=True)) for request in requests
    ]
    return [answer.position if isinstance(answer, Busy) else None for answer in answers]


@check("portable", "fifo", "push", "claims")
async def a_waiter_may_ask_through_another_client(context: CheckContext) -> None:
    """A waiter that retries through another client keeps its position, and is woken there."""
    await _wait_elsewhere(context, None)


@check("portable", "fifo", "push", "claims", "shared")
async def a_waiter_for_a_share_may_ask_through_another_client(context: CheckContext) -> None:
    """A waiter for a share that retries elsewhere keeps its position, and is woken there."""
    for share in (SLOT, WRITE):
        await _wait_elsewhere(context, share)


async def _fill(context: CheckContext, engine: Engine, share: Share | None) -> list[Grant]:
    """Acquire all units of a name."""
    units = SLOT.limit if share == SLOT else 1
    return [grant_of(await engine.acquire(_request(context, share))) for _ in range(units)]


async def _check_move(context: CheckContext, share: Share | None) -> None:
    """Queue through one client, continue through another, and let the first one leave."""
    client, one, other = [await context.connect() for _ in range(3)]
    held = await _fill(context, engine_of(client), share)
    waits, gets = _request(context, share), _request(context, share)
    signal, _ = await context.enqueue(one, gets)
    await context.enqueue(one, waits)
    await context.enqueue(other, waits)
    await engine_of(client).release(held.pop())
    await engine_of(one).wait(signal, core_of(one).world.now() + context.timeout)
    grant = grant_of(await engine_of(other).acquire(gets._replace(queue=True)))
    for request in (gets, waits):
        await engine_of(one).unwatch(request)
        await engine_of(one).leave_queue(request)
    (kept,) = await engine_of(other).renew([grant])
    expect(isinstance(kept, Grant), f"what another client was granted was given back: {kept!r}")
    (position,) = await _positions(other, [waits])
    expect(position == 0, f"who waits through another client stands at {position}")
    await engine_of(other).withdraw(waits)
    for one_of_them in (grant, *held):
        await engine_of(client).release(one_of_them)


async def _check_leave(context: CheckContext, share: Share | None, is_told: bool) -> None:
    """Let a waiter leave that no client serves any more, before its turn or after it."""
    client, one, other = [await context.connect() for _ in range(3)]
    held = await _fill(context, engine_of(client), share)
    ghost, behind = _request(context, share), _request(context, share)
    told, answer = await context.enqueue(one, ghost)
    look_in = busy_of(answer).look_in
    signal, _ = await context.enqueue(other, behind)
    if is_told:
        await engine_of(client).release(held.pop())
        at_most = min(context.timeout, look_in)  # without push, nobody tells it
        await engine_of(one).wait(told, core_of(one).world.now() + at_most)
    await engine_of(one).unwatch(ghost)
    await engine_of(one).leave_queue(ghost)
    if not is_told:
        await engine_of(client).release(held.pop())
    world = core_of(other).world
    end = world.now() + context.timeout
    while isinstance(answer := await engine_of(other).acquire(behind._replace(queue=True)), Busy):
        expect(world.now() < end, f"who stands behind one that has left waits on: {answer!r}")
        await engine_of(other).wait(signal, min(end, world.now() + answer.look_in))
        signal.clear()
    await engine_of(other).unwatch(behind)
    for grant in (answer, *held):
        await engine_of(client).release(grant)


@check("portable", "fifo", "push", "claims", "store")
async def leaving_a_queue_takes_nothing_from_another_client(context: CheckContext) -> None:
    """A client that leaves a queue leaves its owners what they have through another client."""
    await _check_move(context, None)


@check("portable", "fifo", "push", "claims", "store", "shared")
async def leaving_a_queue_takes_no_share_from_another_client(context: CheckContext) -> None:
    """A client that leaves a queue leaves its owners the shares they have through another one."""
    for share in (SLOT, WRITE):
        await _check_move(context, share)


@check("portable", "fifo", "claims", "store")
async def who_has_left_a_queue_gets_nothing(context: CheckContext) -> None:
    """A waiter that its client serves no more is not granted the lock; the next one is."""
    for is_told in (False, True):
        await _check_leave(context, None, is_told)


@check("portable", "fifo", "claims", "store", "shared")
async def who_has_left_a_queue_gets_no_share(context: CheckContext) -> None:
    """A waiter that its client serves no more is not granted a share; the next one is."""
    for share in (SLOT, WRITE):
        for is_told in (False, True):
            await _check_leave(context, share, is_told)
