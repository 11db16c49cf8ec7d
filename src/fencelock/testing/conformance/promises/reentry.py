"""Check that a re-entrant lock gives its holder the same lease again."""

from __future__ import annotations

from ..check import check, expect, given, kept_out
from ..context import LONG_S, CheckContext


@check()
async def reentry_gives_the_same_lease(context: CheckContext) -> None:
    """A re-entrant lock gives its holder the same lease again, freed at the last level only."""
    client, rival = await context.connect(), await context.connect()
    lock = client.lock(context.name(), ttl=LONG_S, reentrant=True)
    outer = await lock.acquire()
    inner = given(await lock.try_acquire(), "its holder enters again")
    expect(inner == outer, "re-entering gave another lease")
    expect(await inner.release() is True, "the inner level could not be left")
    expect(outer, "leaving the inner level ended the lease")
    await kept_out(rival.lock(context.name()), "the inner level freed the lock")
    expect(await outer.release() is True, "the last level did not free the lock")
    await given(await rival.lock(context.name()).try_acquire(), "all levels were left").release()
    expect(await outer.release() is False, "there was one level too many")


@check()
async def blocks_of_one_lock_nest(context: CheckContext) -> None:
    """Nested blocks of one re-entrant lock hold it until the outermost is left."""
    client, rival = await context.connect(), await context.connect()
    lock = client.lock(context.name(), ttl=LONG_S, reentrant=True)
    async with lock as outer:
        async with lock as inner:
            expect(inner == outer, "the inner block has another lease")
        expect(outer, "leaving the inner block ended the lease")
        await kept_out(rival.lock(context.name()), "the lock is free inside")
    await given(await rival.lock(context.name()).try_acquire(), "all blocks were left").release()


@check()
async def only_the_holder_reenters(context: CheckContext) -> None:
    """Another thread or task does not re-enter, even through the same Lock object."""
    client = await context.connect()
    lock = client.lock(context.name(), ttl=LONG_S, reentrant=True)
    lease = await lock.acquire()
    expect(await context.start(lock.try_acquire).result() is None, "another re-entered the lock")
    await lease.release()
    other = given(await context.start(lock.try_acquire).result())
    await kept_out(lock, "the lease of another was re-entered")
    await other.release()


@check()
async def a_plain_lock_is_not_reentered(context: CheckContext) -> None:
    """Without ``reentrant`` even its holder is kept out."""
    client = await context.connect()
    lock = client.lock(context.name(), ttl=LONG_S)
    async with lock:
        await kept_out(lock, "the lock was given twice")
