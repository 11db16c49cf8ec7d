"""Check several locks that are held together."""

from __future__ import annotations

from .... import aio
from ....errors import AcquireTimeout, LeaseLost, UsageError
from ...faulty import Faults
from ..check import check, expect, given, kept_out, refused
from ..context import LONG_S, CheckContext, core_of, engine_of


@check()
async def several_locks_are_all_or_none(context: CheckContext) -> None:
    """All of several locks are acquired, each with a fence, or none of them stays held."""
    client, other = await context.connect(), await context.connect()
    names = [context.name(word) for word in ("c", "a", "b")]
    locks = client.locks(*names, ttl=LONG_S)
    expect(locks.names == tuple(sorted(names)), f"{names} are acquired as {locks.names}")
    taken = await other.lock(names[2], ttl=LONG_S).acquire()
    await kept_out(locks, "two of three locks were given as all")
    error = await refused(AcquireTimeout, locks.acquire(timeout=0), "a lock that is held")
    expect(error.name == names[2], f"{names[2]!r} is held, and the error names {error.name!r}")
    for name in names[:2]:
        await given(await other.lock(name, ttl=LONG_S).try_acquire(), "not all were").release()
    await taken.release()
    async with locks as leases:
        leases.check()
        expect(leases and leases.remaining() > 0, "leases that were just given do not hold")
        expect(sorted(leases.fences) == sorted(names), f"there are fences for {leases.fences}")
        expect(leases[names[2]].fence > taken.fence, "a fence has not grown")
        for name in names:
            await kept_out(other.lock(name, ttl=LONG_S), f"{name!r} has two holders")
    for name in names:
        await given(await other.lock(name, ttl=LONG_S).try_acquire(), "all were left").release()
    leases = given(await locks.try_acquire(), "all are free")
    expect(await leases.release(), "all were ours, and release() says no")
    expect(not await leases.release(), "they were released twice")


@check()
async def nothing_is_granted_if_one_is_busy(context: CheckContext) -> None:
    """Of several locks none is granted, not for a moment, while one of them is held: the engine
    that is asked for all at once names the first such one, or leaves it to be asked for each."""
    client, other = await context.connect(), await context.connect()
    names = [context.name(word) for word in ("a", "b", "c")]
    for held in (names[:1], names[1:2], names[2:], names[1:]):
        leases = [await other.lock(name, ttl=LONG_S).acquire() for name in held]
        answer = await engine_of(client).acquire_all([*map(context.request, names)])
        expect(not isinstance(answer, list), f"{held} are held, and all of {names} were granted")
        if isinstance(answer, tuple):
            expect(answer[0] == held[0], f"of {held}, which are held, {answer[0]!r} is named")
            expect(not answer[1].queued, "who does not wait was queued")
        error = await refused(AcquireTimeout, client.locks(*names).acquire(timeout=0), "held")
        expect(error.name == held[0], f"of {held}, which are held, the error names {error.name!r}")
        for name in names:
            state = await client.inspect(name)
            expect(len(state.holders) == (name in held), f"{name!r} was granted without the others")
            expect(not state.waiters, f"somebody waits for {name!r}")
        for lease in leases:
            await lease.release()
    answer = await engine_of(client).acquire_all([*map(context.request, names)])
    if isinstance(answer, list):
        order = [grant.name for grant in answer]
        expect(order == names, f"{names} were asked for, and the grants are of {order}")
        expect(await engine_of(client).release_all(answer) in (None, [True] * 3), "all were ours")
        for grant in answer:
            await engine_of(client).release(grant)


@check()
async def several_are_released_each_by_its_own_grant(context: CheckContext) -> None:
    """All of several locks are given back; one that is another's by now stays that one's."""
    client, other = await context.connect(), await context.connect()
    names = [context.name(word) for word in ("a", "b", "c")]
    leases = await client.locks(*names, ttl=LONG_S).acquire()
    grant = leases[names[1]]._hold.grant  # pyright: ignore[reportPrivateUsage]
    expect(await engine_of(client).release(grant), "a lock that is held was not given back")
    taken = given(await other.lock(names[1], ttl=LONG_S).try_acquire(), "it was given back")
    expect(not await leases.release(), "one was another's, and all were released")
    for name in (names[0], names[2]):
        await given(await other.lock(name, ttl=LONG_S).try_acquire(), "it was left").release()
    expect(await taken.release(), "another's lock was released")


@check()
async def an_unanswered_request_for_several_is_taken_back(context: CheckContext) -> None:
    """When the answer for all of several locks is lost, they are acquired in the end, and nothing
    is left of the request that had no answer."""
    faults = Faults()
    client, other = await context.connect(faults), await context.connect()
    for lose in (faults.lose_replies, faults.lose_requests):
        names = [context.name(word) for word in ("a", "b")]
        lose(1, "acquire")
        locks = client.locks(*names, ttl=LONG_S)
        leases = given(await locks.try_acquire(timeout=context.timeout), "all are free")
        for name in names:
            await kept_out(other.lock(name, ttl=LONG_S), f"{name!r} has two holders")
        expect(await leases.release(), "all were ours, and release() says no")
        for name in names:
            await given(await other.lock(name, ttl=LONG_S).try_acquire(), "all were left").release()


@check()
async def the_order_of_names_does_not_deadlock(context: CheckContext) -> None:
    """Two who want the same locks and name them in different orders do not wait for each other."""
    one, other = context.name("one"), context.name("other")

    async def take_turns(client: aio.Client, *names: str) -> int:
        for _ in range(4):
            async with client.locks(*names, ttl=LONG_S, timeout=context.timeout) as leases:
                await context.breathe()
                leases.check()
        return 1

    jobs = [
        context.start(take_turns, await context.connect(), one, other),
        context.start(take_turns, await context.connect(), other, one),
    ]
    for job in jobs:
        await job.result()


@check()
async def the_loss_of_one_is_the_loss_of_all(context: CheckContext) -> None:
    """When one of several locks is lost, its holder is notified once, the others are released."""
    client, other = await context.connect(), await context.connect()
    names = [context.name("a"), context.name("b")]
    told: list[LeaseLost] = []
    locks = client.locks(*names, ttl=LONG_S, on_lost=told.append)
    seen = False
    try:
        async with locks as leases:
            hold = leases[names[0]]._hold  # pyright: ignore[reportPrivateUsage]
            core_of(client).keeper.lose(hold, "revoked", "maintenance")
            try:
                seen = await leases.lost.wait(context.timeout)
            finally:
                seen = seen or leases.lost.is_set()
                expect(not leases, "leases hold of which one is lost")
                expect(leases.reason, "there is no reason for a loss")
        raise AssertionError("leaving a block that lost a lock did not raise")
    except LeaseLost as error:
        expect(error.name == names[0], f"{names[0]!r} was lost, and {error.name!r} is named")
    expect(seen, "a loss was not seen")

    async def was_told() -> bool:
        return bool(told)

    await context.until(was_told, "on_lost must be called")
    for name in names:
        await given(await other.lock(name, ttl=LONG_S).try_acquire(), "all were left").release()
    expect(len(told) == 1, f"on_lost was called {len(told)} times")


@check()
async def wrong_names_of_several_are_refused(context: CheckContext) -> None:
    """No name, or one of them twice, is refused before anything is sent."""
    client = await context.connect()
    for names in ((), ("a", "b", "a")):
        try:
            client.locks(*names)
        except UsageError:
            continue
        expect(False, f"locks{names} was not refused")
