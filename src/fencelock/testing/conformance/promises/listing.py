"""Check how semaphores, read/write locks and elections are listed: owners, roles and times."""

from __future__ import annotations

from .... import aio
from ...._client.lock_options import READ
from ....model import Holding, Kind, Share
from ..check import check, expect
from ..context import BRIEF_S, LONG_S, CheckContext, Running, engine_of


@check("shared", "scan")
async def scan_lists_every_share(context: CheckContext) -> None:
    """``scan`` lists each slot, reader and writer as ``inspect`` does, and the limit of slots."""
    client, other = await context.connect(), await context.connect()
    slots, read, written = (context.name(word) for word in ("a", "b", "c"))
    leases = [await client.semaphore(slots, limit=3, ttl=LONG_S).acquire() for _ in range(2)]
    leases += [await client.rwlock(read, ttl=LONG_S, meta={"n": 1}).read().acquire()]
    leases += [await other.rwlock(read, ttl=LONG_S).read().acquire()]
    leases += [await client.rwlock(written, ttl=LONG_S).write().acquire()]
    listed = await other.scan(context.name(""))
    shown = [(h.name, h.kind, h.role, h.slot, h.limit, h.fence) for h in listed]
    limits = [3, 3, None, None, None]
    expected = [
        (x.name, "semaphore" if limit else "rwlock", x.role, x.slot, limit, x.fence)
        for x, limit in zip(leases, limits, strict=True)
    ]
    expect(shown == expected, f"{expected} is held, and {shown} is listed")
    for name in (slots, read, written):
        scanned = [_facts(holding) for holding in listed if holding.name == name]
        seen = [_facts(holding) for holding in await client.holders(name)]
        expect(scanned == seen, f"scan says {scanned}, holders {seen}")
    for lease in leases:
        await lease.release()
    expect(await other.scan(context.name("")) == [], "released shares are still listed")


@check("shared")
async def readers_and_a_waiting_writer_are_shown(context: CheckContext) -> None:
    """``inspect`` shows each reader's time and words, and who waits to write and to read."""
    name, one, other = context.name(), await context.connect(), await context.connect()
    readers = [
        await one.rwlock(name, ttl=LONG_S, meta={"reader": number}).read().acquire()
        for number in range(2)
    ]
    theirs = other.rwlock(name, ttl=LONG_S, timeout=context.timeout, meta={"late": True})
    jobs = [context.start(theirs.write().acquire)]
    await context.until_waiting(name, 1)
    jobs.append(context.start(theirs.read().acquire))
    await context.until_waiting(name, 2)
    state = await other.inspect(name)
    shown = [(h.role, h.slot, h.limit, h.fence, h.meta.get("reader")) for h in state.holders]
    expected = [("read", None, None, reader.fence, at) for at, reader in enumerate(readers)]
    expect(shown == expected, f"two read, and {shown} is shown")
    for holding in state.holders:
        expect(holding.ttl == LONG_S, f"a reader's ttl is {LONG_S}, and {holding.ttl} is shown")
        expect(0 <= holding.age < LONG_S, f"a reader's age cannot be {holding.age}")
        expect(0 < holding.remaining <= LONG_S, f"it cannot have {holding.remaining} s left")
    waits = [(waiter.role, waiter.meta.get("late")) for waiter in state.waiters]
    expect(waits == [("write", True), ("read", True)], f"a writer, then a reader wait: {waits}")
    expect(state.limit is None, f"a read/write lock has no limit, and {state.limit} is shown")
    for reader in readers:
        await reader.release()
    writer = await jobs[0].result()
    (shown_writer,) = await one.holders(name)
    expect(
        (shown_writer.role, shown_writer.fence) == ("write", writer.fence),
        f"one writes, and {shown_writer} is shown",
    )
    await writer.release()
    await (await jobs[1].result()).release()


@check("shared", "fifo")
async def who_waits_for_a_slot_is_shown_in_order(context: CheckContext) -> None:
    """``inspect`` shows the queue of a semaphore, first come first."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    lease = await client.semaphore(name, limit=1, ttl=LONG_S).acquire()
    jobs: list[Running[aio.Lease]] = []
    for number in range(3):
        waiting = other.semaphore(
            name, limit=1, ttl=LONG_S, timeout=context.timeout, meta={"number": number}
        )
        jobs.append(context.start(waiting.acquire))
        await context.until_waiting(name, number + 1)
    state = await client.inspect(name)
    shown = [(waiter.role, waiter.meta.get("number")) for waiter in state.waiters]
    expect(shown == [("semaphore", n) for n in range(3)], f"waiters 0, 1, 2 are shown as {shown}")
    expect(all(waiter.age >= 0 for waiter in state.waiters), "a waiter has a negative age")
    await lease.release()
    for job in jobs:
        await (await job.result()).release()


@check("shared")
async def each_kind_has_its_own_queue(context: CheckContext) -> None:
    """Who waits for a lock, a slot and a write lock of one name is shown beside its holder."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    held: list[aio.Lease] = []
    jobs: list[Running[aio.Lease]] = []
    for number, (one, two) in enumerate(
        (
            (client.lock(name, ttl=LONG_S), other.lock(name, ttl=LONG_S)),
            (
                client.semaphore(name, limit=1, ttl=LONG_S),
                other.semaphore(name, limit=1, ttl=LONG_S),
            ),
            (
                client.rwlock(name, ttl=LONG_S).read(),
                other.rwlock(name, ttl=LONG_S).write(),
            ),
        ),
        1,
    ):
        held.append(await one.acquire())
        jobs.append(context.start(two.acquire))
        await context.until_waiting(name, number)
    state = await client.inspect(name)
    kinds: tuple[Kind, ...] = ("mutex", "semaphore", "rwlock")
    for kind, lease, wanted in zip(kinds, held, ("lock", "semaphore", "write"), strict=True):
        part = state.of(kind)
        fences, roles = [h.fence for h in part.holders], [w.role for w in part.waiters]
        expect(fences == [lease.fence], f"the {kind} is held by {fences}, not {lease.fence}")
        expect(roles == [wanted], f"one waits for {wanted}, and {roles} is shown")
    expect(state.limit == 1, f"the limit is 1, and {state.limit} is shown")
    for lease, job in zip(held, jobs, strict=True):
        await lease.release()
        await (await job.result()).release()


@check("shared")
async def a_downgraded_writer_is_shown_reading(context: CheckContext) -> None:
    """Once a writer only reads, it is listed as a reader, with the same fence."""
    name, client = context.name(), await context.connect()
    lease = await client.rwlock(name, ttl=LONG_S).write().acquire()
    await lease.downgrade()
    shown = [(holding.role, holding.fence) for holding in await client.holders(name)]
    expect(shown == [("read", lease.fence)], f"one reads that wrote, and {shown} is shown")
    await lease.release()


@check("shared")
async def an_expired_share_is_not_shown(context: CheckContext) -> None:
    """Whoever let a slot or a read lock run out is not listed, though nobody else wants it."""
    name, client = context.name(), await context.connect()
    kept = await client.semaphore(name, limit=2, ttl=LONG_S).acquire()
    for share in (Share("semaphore", 1, 2), READ):
        brief = context.request(name, ttl=BRIEF_S)._replace(share=share)
        await engine_of(client).acquire(brief)

    async def gone() -> bool:
        return [holding.fence for holding in await client.holders(name)] == [kept.fence]

    await context.until(gone, "those whose time is over must vanish, and the other must stay")
    await kept.release()


@check()
async def a_leader_is_shown_as_one(context: CheckContext) -> None:
    """Whoever holds a lock in order to lead is listed as a leader, and nobody else."""
    client, other = await context.connect(), await context.connect()
    lease = await client.lock(context.name("lock"), ttl=LONG_S).acquire()
    term = await client.election(context.name("term"), ttl=LONG_S, meta={"zone": "b"}).campaign()
    state = await other.inspect(term.name)
    expect(state.leader is not None, f"one leads, and {state.holders} is shown")
    assert state.leader is not None
    expect(state.leader.fence == term.fence, f"another leads: {state.leader}")
    expect(state.leader.meta.get("zone") == "b", f"its words became {state.leader.meta}")
    (holding,) = await other.holders(lease.name)
    expect(not holding.election, f"a plain lock is shown as an election: {holding}")
    await term.release()
    expect((await other.inspect(term.name)).leader is None, "who resigned is shown as leading")
    await lease.release()


def _facts(holding: Holding) -> tuple[object, ...]:
    return (
        holding.fence,
        holding.ttl,
        holding.meta,
        holding.role,
        holding.slot,
        holding.limit,
    )
