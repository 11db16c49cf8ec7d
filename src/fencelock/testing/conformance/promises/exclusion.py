"""Only one at a time, and giving back."""

from __future__ import annotations

from .... import aio
from ....errors import AcquireTimeout
from ..check import check, expect, given, kept_out, refused
from ..kit import LONG_S, Kit


@check()
async def exclusion_holds_between_contenders(kit: Kit) -> None:
    """Of many contenders on several clients at most one is inside, and no update is lost."""
    name, rounds, count = kit.name(), 5, 6
    clients = [await kit.connect() for _ in range(3)]
    inside: list[int] = []
    updates = [0]  # read, let others run, write: what a lock is for

    async def contend(number: int, client: aio.Client) -> None:
        for _ in range(rounds):
            async with client.lock(name, ttl=LONG_S, timeout=kit.patience):
                inside.append(number)
                seen = updates[0]
                await kit.breathe()
                expect(inside == [number], f"contenders {inside} were inside at once")
                updates[0] = seen + 1
                inside.remove(number)

    jobs = [kit.start(contend, number, clients[number % 3]) for number in range(count)]
    for job in jobs:
        await job.result()
    made = rounds * count
    expect(updates == [made], f"{made} updates were made, {updates[0]} are left")


@check()
async def try_acquire_gives_none_when_held(kit: Kit) -> None:
    """``try_acquire`` answers at once: a lease when the lock is free, None when it is held."""
    name, holder, rival = kit.name(), await kit.connect(), await kit.connect()
    lease = given(await holder.lock(name, ttl=LONG_S).try_acquire())
    await kept_out(rival.lock(name), "another client was let in as well")
    await kept_out(holder.lock(name), "the same client was let in twice")
    expect(lease, "the lease of the first holder must be true")
    await lease.release()
    await given(await rival.lock(name).try_acquire(), "its holder gave it back").release()


@check()
async def acquire_raises_when_time_is_up(kit: Kit) -> None:
    """``acquire`` raises AcquireTimeout, which is a TimeoutError, and leaves nothing behind."""
    name, holder, rival = kit.name(), await kit.connect(), await kit.connect()
    lease = await holder.lock(name, ttl=LONG_S).acquire()
    for timeout in (0, 0.05):
        lock = rival.lock(name, timeout=timeout)
        error = await refused(TimeoutError, lock.acquire(), "acquiring a held lock")
        expect(isinstance(error, AcquireTimeout), f"a held lock raised {error!r}")
    expect((await holder.inspect(name)).waiters == (), "who gave up still stands in the queue")
    await lease.release()
    await given(await holder.lock(name).try_acquire(), "who waited for it gave up").release()


@check()
async def a_block_is_never_entered_without_the_lock(kit: Kit) -> None:
    """``with`` enters its body with the lock held, or raises."""
    name, holder, rival = kit.name(), await kit.connect(), await kit.connect()
    entered: list[str] = []

    async def enter() -> None:
        async with rival.lock(name, timeout=0.05):
            entered.append("without the lock")

    async with holder.lock(name, ttl=LONG_S) as lease:
        expect(lease, "a lease must be true in its block")
        await refused(AcquireTimeout, enter(), "a block whose lock is held by another")
    expect(entered == [], "the body ran without the lock")


@check()
async def leaving_a_block_frees_the_lock(kit: Kit) -> None:
    """A block gives the lock back, also when its body raises, and the error passes through."""
    name, client, rival = kit.name(), await kit.connect(), await kit.connect()
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
async def release_says_whether_it_freed(kit: Kit) -> None:
    """``release`` is True when it freed the lock, and False ever after; another's hold stays."""
    name, client, rival = kit.name(), await kit.connect(), await kit.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    expect(await lease.release() is True, "the first release must say True")
    expect(await lease.release() is False, "the second release must say False")
    other = given(await rival.lock(name, ttl=LONG_S).try_acquire())
    expect(await lease.release() is False, "a release of what another holds must say False")
    other.check()
    await kept_out(client.lock(name), "the old lease freed the new holder's")
    expect(await other.release() is True, "the new holder could not give its lock back")


@check()
async def a_lease_may_be_released_elsewhere(kit: Kit) -> None:
    """A hold belongs to its lease, not to a thread or task: whoever has the lease can release."""
    name, client, rival = kit.name(), await kit.connect(), await kit.connect()
    lease = await kit.start(client.lock(name, ttl=LONG_S).acquire).result()
    expect(await lease.release() is True, "a lease from another thread or task did not release")
    await given(await rival.lock(name).try_acquire()).release()


@check()
async def different_names_do_not_disturb_each_other(kit: Kit) -> None:
    """Holding, waiting for and releasing one name changes nothing about another."""
    client, rival = await kit.connect(), await kit.connect()
    one = await client.lock(kit.name("one"), ttl=LONG_S).acquire()
    waiter = kit.start(rival.lock(kit.name("one"), ttl=LONG_S, timeout=kit.patience).acquire)
    await kit.until_waiting(kit.name("one"))
    two = given(await rival.lock(kit.name("two"), ttl=LONG_S).try_acquire())
    expect(await two.release(), "the other name could not be released")
    expect(not waiter.done(), "the release of one name woke a waiter for another")
    one.check()
    await one.release()
    await (await waiter.result()).release()
