"""What recipes promise on every engine that has what they are built on, in both flavors.

Each is a check as the conformance kit has them: it gets clients of its own, and others at work.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fencelock import aio
from fencelock.errors import AcquireTimeout, LeaseLost, UsageError
from fencelock.model import Holding
from fencelock.testing.conformance.check import check, expect, refused
from fencelock.testing.conformance.context import BRIEF_S, LONG_S, CheckContext, engine_of
from fencelock.testing.faulty import Faults
from fencelock.worlds.threads import drive

MONTH_S = 30 * 86_400.0  # a window that does not end within a check


def working(context: CheckContext, work: Callable[[aio.Lease], Coroutine[Any, Any, Any]]) -> Any:
    """The same work for both flavors; it may wait by its context only."""
    return work if context.flavor == "asyncio" else lambda term: drive(work(term))


class Leaders:
    """The iterator of an election, in both flavors."""

    def __init__(self, context: CheckContext, election: aio.Election) -> None:
        self._context = context
        self._changes: Any = election.observe()

    async def next(self) -> Holding | None:
        if self._context.flavor == "asyncio":
            leader: Holding | None = await self._changes.__anext__()
            return leader
        return next(self._changes)  # type: ignore[no-any-return]

    async def close(self) -> None:
        if self._context.flavor == "asyncio":
            await self._changes.aclose()
        else:
            self._changes.close()


# Elections


@check()
async def one_leads_and_the_next_has_a_higher_fence(context: CheckContext) -> None:
    """One of those who campaign leads; when it resigns the next one does, in a later epoch."""
    name, one, other = context.name("boss"), await context.connect(), await context.connect()
    first, second = one.election(name, ttl=LONG_S), other.election(name, ttl=LONG_S)
    expect(await first.leader() is None, "somebody leads before anybody has campaigned")
    expect(not await first.resign(), "somebody has resigned who did not lead")
    term = await first.campaign()
    for election in (first, second):
        leader = await election.leader()
        expect(leader is not None and leader.fence == term.fence, f"{leader} leads, not {term!r}")
    await refused(AcquireTimeout, second.campaign(timeout=0), "a campaign against a leader")
    campaign = context.start(second.campaign)
    await context.until_waiting(name)
    expect(await first.resign(), "the leader has not resigned")
    expect(not term, "a term that was resigned holds")
    successor = await campaign.result()
    expect(successor.fence > term.fence, "the fence of the next term is not higher")
    await successor.release()


@check("push")
async def a_resigning_leader_hands_over_at_once(context: CheckContext) -> None:
    """Whoever waits is told of it, and need not look by itself."""
    name, one, other = context.name("boss"), await context.connect(), await context.connect()
    election = one.election(name, ttl=LONG_S)
    await election.campaign()
    context.record.look_in = 60.0
    campaign = context.start(other.election(name, ttl=LONG_S).campaign)
    await context.until_waiting(name)
    await election.resign()
    term = await campaign.result()
    expect(term, "the term of the next leader is over")
    await term.release()


@check()
async def leaving_the_block_resigns(context: CheckContext) -> None:
    """A block leads while it lasts, and is not entered when it has no term."""
    name, one, other = context.name("boss"), await context.connect(), await context.connect()
    async with one.election(name, ttl=LONG_S) as term:
        leader = await other.election(name).leader()
        expect(leader is not None and leader.fence == term.fence, "the block does not lead")
        await refused(AcquireTimeout, other.election(name).campaign(timeout=0), "a campaign")
    expect(await other.election(name).leader() is None, "the leader has left and leads")


@check()
async def observers_see_every_change(context: CheckContext) -> None:
    """They are given the leader, and then each change, with the fence of the new term."""
    name, one, other = context.name("boss"), await context.connect(), await context.connect()
    leaders = Leaders(context, other.election(name, ttl=LONG_S))
    expect(await leaders.next() is None, "somebody leads before anybody has campaigned")
    election = one.election(name, ttl=LONG_S)
    for _ in range(2):
        change = context.start(leaders.next)
        term = await election.campaign()
        leader = await change.result()
        expect(leader is not None and leader.fence == term.fence, f"{leader} was told")
        change = context.start(leaders.next)
        await election.resign()
        expect(await change.result() is None, "that nobody leads was not told")
    await leaders.close()


@check("revoke")
async def a_lost_term_is_followed_by_another_campaign(context: CheckContext) -> None:
    """Work is told that its term is lost, and is done again in the next term."""
    name, client, admin = context.name("boss"), await context.connect(), await context.connect()
    fences: list[int] = []

    async def work(term: aio.Lease) -> str:
        fences.append(term.fence)
        if len(fences) == 1:
            revoked = context.start(admin.revoke, name, "another shall lead")
            await revoked.result()  # renewed without a pause meanwhile, it might not get through

            async def lost() -> bool:
                context.make_due(client)
                return term.lost.is_set()

            await context.until(lost, "the leader must be told of its loss")
        term.check()
        return "done"

    value = await client.election(name, ttl=LONG_S).run(working(context, work))
    expect(value == "done", f"run returned {value!r}")
    expect(len(fences) == 2, f"the work was done in {len(fences)} terms")
    expect(fences[0] < fences[1], "the fence of the second term is not higher")
    expect(await admin.election(name).leader() is None, "who has done its work leads")


@check()
async def work_that_raises_resigns(context: CheckContext) -> None:
    """What the work raises is raised, and others may lead."""
    name, client = context.name("boss"), await context.connect()

    async def work(term: aio.Lease) -> None:
        raise ZeroDivisionError

    election = client.election(name, ttl=LONG_S)
    await refused(ZeroDivisionError, election.run(working(context, work)), "work that raises")
    expect(await election.leader() is None, "who has failed leads")

    async def lose_another(term: aio.Lease) -> None:
        raise LeaseLost("of something else")

    await refused(LeaseLost, election.run(working(context, lose_another)), "work that raises")
    expect(await election.leader() is None, "who has failed leads")


@check()
async def a_crashed_leader_is_replaced(context: CheckContext) -> None:
    """When its ttl is over another one leads, in a later epoch."""
    name, one, other = context.name("boss"), await context.connect(), await context.connect()
    term = await one.election(name, ttl=BRIEF_S * 4).campaign()
    context.crash(one)
    successor = await other.election(name, ttl=LONG_S).campaign(timeout=context.timeout)
    expect(successor.fence > term.fence, "the fence of the next term is not higher")
    expect(not term, "two lead at a time")
    await term.release()
    await successor.release()


# Once per window


@check("remembers")
async def one_of_many_does_the_work_of_a_window(context: CheckContext) -> None:
    """The others skip it, at once or after having waited, also once the worker is gone."""
    name, clients = context.name("job"), [await context.connect() for _ in range(4)]
    runs: list[int] = []

    async def strike(client: aio.Client) -> bool:
        async with client.once(name, every=MONTH_S, ttl=LONG_S) as turn:
            if turn:
                runs.append(turn.fence)
                await context.breathe(0.05)
            return turn is not None

    strikes = [context.start(strike, client) for client in clients]
    turns = [await running.result() for running in strikes]
    expect(turns.count(True) == 1, f"the work was done {turns.count(True)} times: {runs}")
    await clients[turns.index(True)].close()
    expect(not await strike(await context.connect()), "the work was done twice in its window")
    expect(not await clients[turns.index(False)].holders(name), "the lock is still held")


@check("remembers")
async def work_that_failed_is_done_by_another(context: CheckContext) -> None:
    """Nothing is remembered of it, and the lock is free."""
    name, one, other = context.name("job"), await context.connect(), await context.connect()

    async def fail() -> None:
        async with one.once(name, every=MONTH_S, ttl=LONG_S) as turn:
            expect(turn, "the work of a new window was skipped")
            raise ZeroDivisionError

    await refused(ZeroDivisionError, fail(), "work that raises")
    async with other.once(name, every=MONTH_S, timeout=0) as turn:
        expect(turn, "work that failed was not done by another")
    async with one.once(name, every=MONTH_S) as turn:
        expect(turn is None, "work that was done was done again")


@check("remembers")
async def a_crashed_worker_is_replaced(context: CheckContext) -> None:
    """One that waits does the work of the window once the ttl of the worker is over."""
    name, one, other = context.name("job"), await context.connect(), await context.connect()
    crashed = one.once(name, every=MONTH_S, ttl=BRIEF_S * 4)
    turn = await crashed.__aenter__()
    expect(turn, "the work of a new window was skipped")
    context.crash(one)
    async with other.once(name, every=MONTH_S, timeout=0) as skipped:
        expect(skipped is None, "two work in one window, and neither has crashed")
    async with other.once(name, every=MONTH_S, ttl=LONG_S) as replacement:
        expect(replacement, "nobody did the work of one that crashed")
        expect(not turn, "two work at a time")
    await refused(LeaseLost, crashed.__aexit__(None, None, None), "leaving a lost turn")


@check("remembers")
async def what_was_done_without_the_lock_is_not_remembered(context: CheckContext) -> None:
    """A worker whose lease was lost is told, and another does the work."""
    name, one, other = context.name("job"), await context.connect(), await context.connect()
    lost = one.once(name, every=MONTH_S, ttl=BRIEF_S, renew=False)
    turn = await lost.__aenter__()
    assert turn is not None
    try:
        await context.until_lost(turn)
        await context.breathe(0.01)
    except BaseException as error:
        await refused(LeaseLost, lost.__aexit__(type(error), error, None), "a lost turn")
    else:
        await refused(LeaseLost, lost.__aexit__(None, None, None), "a lost turn")
    async with other.once(name, every=MONTH_S, ttl=LONG_S) as turn:
        expect(turn, "what was done without the lock is remembered")


# Barriers


@check("shared", "remembers")
async def parties_pass_together_again_and_again(context: CheckContext) -> None:
    """Nobody passes before all have come, and the next time all are waited for again."""
    name, clients = context.name("start"), [await context.connect() for _ in range(3)]
    came: list[int] = []

    async def meet(client: aio.Client, number: int) -> list[int]:
        barrier, slots = client.barrier(name, 3, ttl=LONG_S), []
        for turn in range(3):
            came.append(turn)
            slots.append(await barrier.wait(context.timeout))
            expect(came.count(turn) == 3, f"{came.count(turn)} of 3 parties passed in turn {turn}")
        return slots

    parties = [context.start(meet, client, number) for number, client in enumerate(clients)]
    slots = [await party.result() for party in parties]
    for turn in range(3):
        expect({s[turn] for s in slots} == {0, 1, 2}, f"the parties of turn {turn} are {slots}")


@check("shared", "remembers")
async def a_party_that_gives_up_leaves(context: CheckContext) -> None:
    """Time is up before all have come: it raises, and does not count any more."""
    name, one, other = context.name("start"), await context.connect(), await context.connect()
    barrier = one.barrier(name, 2, ttl=LONG_S)
    for timeout in (0, 0.05):
        await refused(AcquireTimeout, barrier.wait(timeout), "a wait for a party that never comes")
    expect(not (await one.inspect(f"barrier:{name}")).holders, "who has given up still counts")
    party = context.start(other.barrier(name, 2, ttl=LONG_S).wait, context.timeout)
    expect({await barrier.wait(context.timeout), await party.result()} == {0, 1}, "not two passed")


@check("shared", "remembers")
async def a_party_that_crashed_leaves_with_its_ttl(context: CheckContext) -> None:
    """Until then it has come; afterwards its slot is another's."""
    name, one, other = context.name("start"), await context.connect(), await context.connect()
    slot = await one.semaphore(f"barrier:{name}", limit=2, ttl=BRIEF_S * 4).acquire()
    context.crash(one)
    await context.until_lost(slot)

    async def is_free() -> bool:
        return not (await other.inspect(f"barrier:{name}")).holders

    await context.until(is_free, "a party that crashed must leave")
    barrier = other.barrier(name, 2, ttl=LONG_S)
    await refused(AcquireTimeout, barrier.wait(0.05), "a wait for a party that crashed")
    third = await context.connect()
    party = context.start(third.barrier(name, 2, ttl=LONG_S).wait, context.timeout)
    await barrier.wait(context.timeout)
    await party.result()


@check("shared", "remembers")
async def who_has_passed_does_not_count_for_the_next_time(context: CheckContext) -> None:
    """A party that is slow to leave its slot is not one of those who come next."""
    name, client = context.name("start"), await context.connect()
    slow = await client.semaphore(f"barrier:{name}", limit=2, ttl=LONG_S).acquire()
    await engine_of(client).remember(f"barrier:{name}", "through", slow.fence, LONG_S)
    barrier = client.barrier(name, 2, ttl=LONG_S)
    await refused(AcquireTimeout, barrier.wait(0.1), "a wait beside one that has passed")
    await slow.release()


# Latches


@check("remembers")
async def a_latch_opens_for_all_who_wait(context: CheckContext) -> None:
    """It opens with the last count, stays open, and is shut again by a reset."""
    name, one, other = context.name("ready"), await context.connect(), await context.connect()
    latch, same = one.latch(name, 3), other.latch(name, 3)
    expect(await latch.remaining() == 3, "a new latch was counted down")
    waiters = [context.start(latch.wait), context.start(same.wait)]
    expect(await latch.count_down() == 2, "one count is not one")
    expect(await same.count_down(by="shard 1") == 1, "two counts are not two")
    expect(await latch.count_down(by="shard 1") == 1, "who counts twice by one name counts once")
    await refused(AcquireTimeout, same.wait(0.05), "a wait for a latch that is shut")
    expect(not any(waiter.done() for waiter in waiters), "a latch opened too early")
    expect(await latch.count_down() == 0, "three counts are not three")
    for waiter in waiters:
        await waiter.result()
    expect(await same.count_down() == 0, "an open latch has counts to come")
    await same.wait(0)
    await latch.reset()
    expect(await same.remaining() == 3, "a reset latch was counted down")


@check("remembers")
async def a_count_whose_answer_was_lost_counts_once(context: CheckContext) -> None:
    """It is written again under the same id."""
    faults = Faults()
    name, client = context.name("ready"), await context.connect(faults)
    latch = client.latch(name, 3)
    for left in (2, 1):
        faults.lose_replies(2, "remember")
        expect(await latch.count_down() == left, "a count whose answer was lost counted twice")
        faults.heal()
    written = [call for call in faults.seen("remember") if call.reached]
    expect(len(written) > 4, "no answer was lost")


@check("remembers")
async def all_users_of_a_latch_mean_the_same_count(context: CheckContext) -> None:
    """Who believes in another count is told both."""
    name, client = context.name("ready"), await context.connect()
    await client.latch(name, 3).count_down()
    other = client.latch(name, 4)
    for work in (other.count_down(), other.remaining(), other.wait(0)):
        error = await refused(UsageError, work, "another count")
        expect("count=3" in str(error) and "count=4" in str(error), f"it says {error}")
    expect(await client.latch(name, 3).remaining() == 2, "a refused count was counted")


@check("shared", "remembers")
async def recipes_of_one_name_have_nothing_in_common(context: CheckContext) -> None:
    """A latch, a barrier, an election and a schedule may bear the same name."""
    name, client = context.name("same"), await context.connect()
    async with client.once(name, every=MONTH_S) as turn:
        expect(turn, "a new window was skipped")
    await client.latch(name, 2).count_down()
    async with client.election(name, ttl=LONG_S):
        expect(await client.barrier(name, 1).wait() == 0, "a barrier of one was not passed")
    await client.latch(name, 2).reset()
    async with client.once(name, every=MONTH_S) as turn:
        expect(turn is None, "resetting a latch made a schedule forget")
