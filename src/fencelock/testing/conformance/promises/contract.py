"""Check the contract of ``engine.py`` by direct calls: owners, renewals, withdrawal."""

from __future__ import annotations

from .... import aio
from ....model import Busy, Gone, Grant, Request
from ..check import check, expect
from ..context import BRIEF_S, LONG_S, CheckContext, engine_of, grant_of


async def _is_free(context: CheckContext, client: aio.Client, name: str) -> bool:
    """Return whether the engine grants the name to a new owner, which gives it back at once."""
    request = context.request(name)
    answer = await engine_of(client).acquire(request)
    await engine_of(client).withdraw(request)
    return isinstance(answer, Grant)


def _stranger(context: CheckContext, grant: Grant) -> Grant:
    """Return the same grant with another owner."""
    return grant._replace(owner=context.world.owner())


@check()
async def a_grant_states_what_was_asked(context: CheckContext) -> None:
    """A grant carries its request, and its validity is counted from before that was sent."""
    engine = engine_of(await context.connect())
    request = context.request(context.name())
    before = context.world.now()
    grant = grant_of(await engine.acquire(request))
    after = context.world.now()
    expect((grant.name, grant.owner) == (request.name, request.owner), f"{grant!r} is another's")
    expect(grant.ttl >= request.ttl, f"a ttl of {request.ttl} was asked, {grant.ttl} granted")
    expect(before <= grant.asked_at <= after, "asked_at is not when the request was made")
    expect(grant.valid_until < grant.asked_at + grant.ttl, "nothing is left for clocks that drift")
    await engine.release(grant)


@check()
async def a_held_lock_is_refused(context: CheckContext) -> None:
    """The engine answers Busy to everybody but the owner, with a time to look again."""
    engine, other = engine_of(await context.connect()), engine_of(await context.connect())
    grant = grant_of(await engine.acquire(context.request(context.name())))
    for asked in (engine, other):
        answer = await asked.acquire(context.request(context.name()))
        expect(isinstance(answer, Busy), f"a held lock was granted: {answer!r}")
        expect(isinstance(answer, Busy) and answer.look_in > 0, "when to look again is missing")
    await engine.release(grant)


@check()
async def acquire_is_idempotent_for_its_owner(context: CheckContext) -> None:
    """A repeated acquire by one owner gets the same fence, so that a lost answer is found."""
    client, other = await context.connect(), await context.connect()
    request = context.request(context.name())
    first = grant_of(await engine_of(client).acquire(request))
    found = (client, other, client) if client.traits.revoke else (client, client)  # by a session
    for asked in found:
        again = grant_of(await engine_of(asked).acquire(request))
        expect(again.fence == first.fence, f"fence {first.fence} became {again.fence}")
    expect(await engine_of(client).release(first) is True, "it was not held after all")
    expect(await _is_free(context, other, request.name), "it was granted twice and freed once")


@check()
async def release_needs_the_owner(context: CheckContext) -> None:
    """``release`` by anybody but the owner is False and frees nothing."""
    client, other = await context.connect(), await context.connect()
    grant = grant_of(await engine_of(client).acquire(context.request(context.name())))
    stranger = _stranger(context, grant)
    expect(await engine_of(other).release(stranger) is False, "a stranger released the lock")
    expect(not await _is_free(context, other, grant.name), "a stranger's release freed the lock")
    expect(await engine_of(client).release(grant) is True, "its owner could not release it")
    expect(await engine_of(client).release(grant) is False, "it was released twice")


@check()
async def release_after_the_end_says_no(context: CheckContext) -> None:
    """``release`` of a grant that ran out is False, and leaves the next holder alone."""
    client, other = await context.connect(), await context.connect()
    late = grant_of(await engine_of(client).acquire(context.request(context.name(), ttl=BRIEF_S)))
    request = context.request(context.name())

    async def granted() -> bool:
        return isinstance(await engine_of(other).acquire(request), Grant)

    await context.until(granted, "an expired lock must be granted")
    expect(await engine_of(client).release(late) is False, "what had expired was released")
    await engine_of(client).withdraw(Request(late.name, late.owner, late.ttl))
    expect(
        not await _is_free(context, client, context.name()), "a late release freed another's lock"
    )
    await engine_of(other).withdraw(request)


@check()
async def withdraw_needs_the_owner(context: CheckContext) -> None:
    """``withdraw`` takes back nothing but the owner's own attempt."""
    client, other = await context.connect(), await context.connect()
    grant = grant_of(await engine_of(client).acquire(context.request(context.name())))
    await engine_of(other).withdraw(context.request(context.name()))
    expect(not await _is_free(context, other, grant.name), "a stranger's withdrawal freed the lock")
    expect(await engine_of(client).release(grant) is True, "its owner holds it no more")


@check()
async def withdraw_gives_back_a_grant(context: CheckContext) -> None:
    """``withdraw`` frees a lock whose answer was never seen; doing it twice does no harm."""
    client, other = await context.connect(), await context.connect()
    request = context.request(context.name())
    grant_of(await engine_of(client).acquire(request))
    await engine_of(client).withdraw(request)
    expect(await _is_free(context, other, request.name), "the lock is still held")
    await engine_of(client).withdraw(request)


@check()
async def renew_needs_the_owner(context: CheckContext) -> None:
    """A renewal by anybody but the owner is Gone and extends nothing."""
    client, other = await context.connect(), await context.connect()
    grant = grant_of(await engine_of(client).acquire(context.request(context.name())))
    stranger = _stranger(context, grant)._replace(ttl=10 * LONG_S)
    (answer,) = await engine_of(other).renew([stranger])
    expect(isinstance(answer, Gone), f"a stranger renewed the lock: {answer!r}")
    (shown,) = (await engine_of(other).inspect(context.name())).holders
    expect(shown.remaining <= grant.ttl, "a stranger's renewal extended the lock")
    await engine_of(client).release(grant)


@check()
async def renewal_never_reacquires(context: CheckContext) -> None:
    """A renewal that finds no record is Gone: it never makes one, though the lock be free."""
    client, other = await context.connect(), await context.connect()
    engine = engine_of(client)
    released = grant_of(await engine.acquire(context.request(context.name("released"))))
    expired = grant_of(await engine.acquire(context.request(context.name("expired"), ttl=BRIEF_S)))
    await engine.release(released)

    async def over() -> bool:
        return (await engine.inspect(expired.name)).holders == ()

    await context.until(over, "a grant must expire")
    for grant in (released, expired):
        (answer,) = await engine.renew([grant._replace(ttl=LONG_S)])  # a ttl with time to answer
        expect(isinstance(answer, Gone), f"a renewal took a free lock again: {answer!r}")
        expect(await _is_free(context, other, grant.name), "the renewal made a new record")


@check()
async def renewal_keeps_the_fence_and_adds_time(context: CheckContext) -> None:
    """A renewal answers with the same owner and fence, and the asked ttl counts from now."""
    client, other = await context.connect(), await context.connect()
    grant = grant_of(await engine_of(client).acquire(context.request(context.name())))
    before = context.world.now()
    (answer,) = await engine_of(client).renew([grant._replace(ttl=2 * LONG_S)])
    expect(isinstance(answer, Grant), f"the renewal was refused: {answer!r}")
    if isinstance(answer, Grant):
        facts = (answer.name, answer.owner, answer.fence)
        expect(facts == (grant.name, grant.owner, grant.fence), f"{grant!r} became {answer!r}")
        expect(answer.asked_at >= before, "its time is not counted from the renewal")
        expect(answer.valid_until > grant.asked_at + LONG_S, "the renewal added no time")
    (shown,) = (await engine_of(other).inspect(context.name())).holders
    expect(shown.remaining > LONG_S, f"the engine gives it {shown.remaining} s")
    expect(shown.fence == grant.fence, "the renewal changed the fence")
    await engine_of(client).release(grant)


@check()
async def renewals_are_answered_in_order(context: CheckContext) -> None:
    """A batch of renewals is answered one by one, in the order in which it was asked."""
    client = await context.connect()
    engine = engine_of(client)
    grants = [
        grant_of(await engine.acquire(context.request(context.name(word)))) for word in "dacbfe"
    ]
    await engine.release(grants[2])
    await engine.release(grants[4])
    batch = [grants[index] for index in (5, 4, 3, 2, 1, 0)]
    answers = await engine.renew(batch)
    expect(len(answers) == len(batch), f"{len(batch)} were asked, {len(answers)} answered")
    for asked, answer in zip(batch, answers, strict=True):
        if asked in (grants[2], grants[4]):
            expect(isinstance(answer, Gone), f"{asked!r} was released, and renewed: {answer!r}")
        else:
            same = isinstance(answer, Grant) and answer[:3] == asked[:3]
            expect(same, f"the renewal of {asked!r} was answered with {answer!r}")
            await engine.release(asked)
