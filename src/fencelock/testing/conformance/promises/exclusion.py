"""Check that there is one holder at a time, and that a release frees the lock."""

from __future__ import annotations

from .... import aio
from ....errors import AcquireTimeout
from ..check import check, expect, given, kept_out, refused
from ..context import LONG_S, CheckContext


@check()
async def exclusion_holds_between_contenders(context: CheckContext) -> None:
    """Of many contenders on several clients at most one is inside, and no update is lost."""
    name, times, count = context.name(), 5, 6
    clients = [await context.connect() for _ in range(3)]
    inside: list[int] = []
    updates = [0]  # read, let others run, write: the sequence that a lock protects

    async def contend(number: int, client: aio.Client) -> None:
        for _ in range(times):
            async with client.lock(name, ttl=LONG_S, timeout=context.timeout):
                inside.append(number)
                seen = updates[0]
                await context.breathe()
                expect(inside == [number], f"contenders {inside} were inside at once")
                updates[0] = seen + 1
                inside.remove(number)

    jobs = [context.start(contend, number, clients[number % 3]) for number in range(count)]
    for job in jobs:
        await job.result()
    made = times * count
    expect(updates == [made], f"{made} updates were made, {updates[0]} are left")


@check()
async def try_acquire_gives_none_when_held(context: CheckContext) -> None:
    """``try_acquire`` answers at once: a lease when the lock is free, None when it is held."""
    name, holder, rival = context.name(), await context.connect(), await context.connect()
    lease = given(await holder.lock(name, ttl=LONG_S).try_acquire())
    await kept_out(rival.lock(name), "another client was let in as well")
    await kept_out(holder.lock(name), "the same client was let in twice")
    expect(lease, "the lease of the first holder must be true")
    await lease.release()
    await given(await rival.lock(name).try_acquire(), "its holder gave it back").release()


@check()
async def acquire_raises_when_time_is_up(context: CheckContext) -> None:
    """``acquire`` raises AcquireTimeout, which is a TimeoutError, and leaves nothing behind."""
    name, holder, rival = context.name(), await context.connect(), await context.connect()
    lease = await holder.lock(name, ttl=LONG_S).acquire()
    for timeout in (0, 0.05):
        lock = rival.lock(name, timeout=timeout)
        error = await refused(TimeoutError, lock.acquire(), "acquiring a held lock")
        expect(isinstance(error, AcquireTimeout), f"a held lock raised {error!r}")
    expect((await holder.inspect(name)).waiters == (), "who gave up still stands in the queue")
    await lease.release()
    await given(await holder.lock(name).try_acquire(), "who waited for it gave up").release()


@check()
async def a_block_is_never_entered_without_the_lock(context: CheckContext) -> None:
    """``with`` enters its body with the lock held, or raises."""
    name, holder, rival = context.name(), await context.connect(), await context.connect()
    entered: list[str] = []

    async def enter() -> None:
        async with rival.lock(name, timeout=0.05):
            entered.append("without the lock")

    async with holder.lock(name, ttl=LONG_S) as lease:
        expect(lease, "a lease must be true in its block")
        await refused(AcquireTimeout, enter(), "a block whose lock is held by another")
    expect(entered == [], "the body ran without the lock")


@check()
async def leaving_a_block_frees_the_lock(context: CheckContext) -> None:
    """A block gives the lock back, also when its body raises, and the error passes through."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    async with client.lock(name, ttl=LONG_S) as lease:
        pass
    expect(not lease, "a lease must be false after its block")
    await given(await rival.lock(name).try_acquire(), "its block was left").release()

    async def stumble() -> None:
        async with client.lock(name, ttl=LONG_S):
            raise KeyError("of the body")

    await refused(KeyError, stumble(), "a block whose body raises")
    await given(await rival.lock(name).try_acquire(), "its block has raised").release()


@check()
async def release_says_whether_it_freed(context: CheckContext) -> None:
    """``release`` is True when it freed the lock, and False ever after; another's hold stays."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    expect(await lease.release() is True, "the first release must say True")
    expect(await lease.release() is False, "the second release must say False")
    other = given(await rival.lock(name, ttl=LONG_S).try_acquire())
    expect(await lease.release() is False, "a release of what another holds must say False")
    other.check()
    await kept_out(client.lock(name), "the old lease freed the new holder's")
    expect(await other.release() is True, "the new holder could not give its lock back")


@check()
async def a_lease_may_be_released_elsewhere(context: CheckContext) -> None:
    """A hold belongs to its lease, not to a thread or task: whoever has the lease can release."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await context.start(client.lock(name, ttl=LONG_S).acquire).result()
    expect(await lease.release() is True, "a lease from another thread or task did not release")
    await given(await rival.lock(name).try_acquire()).release()


@check()
async def different_names_do_not_disturb_each_other(context: CheckContext) -> None:
    """Holding, waiting for and releasing one name changes nothing about another."""
    client, rival = await context.connect(), await context.connect()
    one = await client.lock(context.name("one"), ttl=LONG_S).acquire()
    waiter = context.start(
        rival.lock(context.name("one"), ttl=LONG_S, timeout=context.timeout).acquire
    )
    await context.until_waiting(context.name("one"))
    two = given(await rival.lock(context.name("two"), ttl=LONG_S).try_acquire())
    expect(await two.release(), "the other name could not be released")
    expect(not waiter.done(), "the release of one name woke a waiter for another")
    one.check()
    await one.release()
    await (await waiter.result()).release()
