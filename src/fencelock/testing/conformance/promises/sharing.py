"""Check names that several may hold: semaphores and read/write locks."""

from __future__ import annotations

from ...._client.lock_options import READ, WRITE
from ....errors import UsageError
from ....model import Busy, Share
from ..check import check, expect, given, kept_out, refused
from ..context import BRIEF_S, LONG_S, CheckContext, engine_of, grant_of, owner_of

LIMIT = 3


@check("shared")
async def a_semaphore_has_as_many_holders_as_its_limit(context: CheckContext) -> None:
    """So many hold a semaphore as its limit says, and not one more, each with a slot of its own."""
    one, other = await context.connect(), await context.connect()
    of_one = one.semaphore(context.name(), limit=LIMIT, ttl=LONG_S)
    of_other = other.semaphore(context.name(), limit=LIMIT, ttl=LONG_S)
    leases = [given(await s.try_acquire()) for s in (of_one, of_other, of_one)]
    slots = [lease.slot for lease in leases]
    expect(sorted(map(str, slots)) == ["0", "1", "2"], f"3 holders of 3 slots have {slots}")
    await kept_out(of_other, "a fourth holds a semaphore with limit=3")
    expect(await leases[1].release(), "a slot could not be given back")
    again = given(await of_other.try_acquire(), "a slot is free")
    expect(again.slot == slots[1], f"slot {slots[1]} is free, and {again.slot} was given")
    await kept_out(of_one, "a fourth holds a semaphore with limit=3 after one came back")
    for lease in (leases[0], leases[2], again):
        lease.check()
        expect(await lease.release(), "a slot could not be given back")


@check("shared", "fence")
async def fences_grow_within_a_slot(context: CheckContext) -> None:
    """Every grant of a slot has a higher fence than the one before it."""
    client = await context.connect()
    semaphore = client.semaphore(context.name(), limit=2, ttl=LONG_S)
    highest: dict[int | None, int] = {}
    kept = await semaphore.acquire()
    highest[kept.slot] = kept.fence
    for _ in range(6):
        lease = given(await semaphore.try_acquire(), "a slot is free")
        expect(lease.slot != kept.slot, f"slot {kept.slot} has two holders")
        before = highest.get(lease.slot, 0)
        expect(lease.fence > before, f"the fence of slot {lease.slot}: {before}, {lease.fence}")
        highest[lease.slot] = lease.fence
        await kept.release()
        kept = lease
    await kept.release()


@check("shared")
async def limits_that_differ_are_refused(context: CheckContext) -> None:
    """A limit other than the one in use is refused with both; once unused, any is accepted."""
    one, other = await context.connect(), await context.connect()
    lease = await one.semaphore(context.name(), limit=2, ttl=LONG_S).acquire()
    wider = other.semaphore(context.name(), limit=5, ttl=LONG_S)
    error = await refused(UsageError, wider.try_acquire(), "another limit")
    expect("limit=2" in str(error) and "limit=5" in str(error), f"both limits are not in: {error}")
    lease.check()
    await lease.release()
    await given(await wider.try_acquire(), "nobody uses the semaphore").release()


@check("shared")
async def readers_share_and_a_writer_does_not(context: CheckContext) -> None:
    """Many read together; nobody writes beside a reader, nor reads or writes beside a writer."""
    name, one, other = context.name(), await context.connect(), await context.connect()
    ours, theirs = one.rwlock(name, ttl=LONG_S), other.rwlock(name, ttl=LONG_S)
    readers = [given(await lock.read().try_acquire()) for lock in (ours, theirs, ours)]
    expect({reader.role for reader in readers} == {"read"}, f"not all read: {readers}")
    rival = await context.connect()
    write = rival.rwlock(name, ttl=LONG_S).write()
    await kept_out(write, "somebody writes beside three readers")
    for reader in readers:
        expect(await reader.release(), "a read lock could not be given back")
    writer = given(await write.try_acquire(), "nobody reads any more")
    expect(writer.role == "write", f"a writer's role is {writer.role}")
    await kept_out(ours.read(), "somebody reads beside a writer")
    await kept_out(theirs.write(), "two write at once")
    expect(writer.fence > max(reader.fence for reader in readers), "a writer's fence is not higher")
    expect(await writer.release(), "a write lock could not be given back")


@check("shared", "fifo")
async def a_waiting_writer_is_not_overtaken(context: CheckContext) -> None:
    """Readers who come after a waiting writer wait behind it; then they are served together."""
    name, one, other = context.name(), await context.connect(), await context.connect()
    reader = await one.rwlock(name, ttl=LONG_S).read().acquire()
    theirs = other.rwlock(name, ttl=LONG_S, timeout=context.timeout)
    writing = context.start(theirs.write().acquire)
    await context.until_waiting(name, 1)
    reading = [context.start(theirs.read().acquire) for _ in range(2)]
    await context.until_waiting(name, 3)
    await kept_out(one.rwlock(name, ttl=LONG_S).read(), "a reader overtook a waiting writer")
    await reader.release()
    writer = await writing.result()
    expect(not any(job.done() for job in reading), "somebody reads beside a writer")
    await writer.release()
    late = [await job.result() for job in reading]
    for lease in late:
        lease.check()
        expect(lease.fence > writer.fence, "a later reader has no higher fence")
    for lease in late:
        await lease.release()


@check("shared", "fifo")
async def a_semaphore_serves_waiters_in_order(context: CheckContext) -> None:
    """A slot that is free goes to whoever has waited longest, and to nobody who comes later."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    share = Share("semaphore", 1, 2)
    held = [
        grant_of(await engine_of(client).acquire(context.request(name)._replace(share=share)))
        for _ in range(2)
    ]
    waiting = [context.request(name)._replace(share=share) for _ in range(3)]
    for request in waiting:
        _, answer = await context.enqueue(other, request)
        expect(isinstance(answer, Busy), f"a full semaphore was granted: {answer!r}")
    await engine_of(client).release(held[0])
    late = await engine_of(client).acquire(context.request(name)._replace(share=share))
    expect(isinstance(late, Busy), "a newcomer overtook three waiters")
    for ahead, request in enumerate(waiting):
        answer = await engine_of(other).acquire(request._replace(queue=True))
        grant = grant_of(answer)
        for behind in waiting[ahead + 1 :]:
            answer = await engine_of(other).acquire(behind._replace(queue=True))
            expect(isinstance(answer, Busy), "a waiter overtook the one before it")
        await engine_of(other).release(grant)
    await engine_of(client).release(held[1])


@check("shared")
async def asked_again_a_holder_keeps_its_share(context: CheckContext) -> None:
    """A holder that asks once more gets the same slot and fence, and takes no second unit."""
    name, client = context.name(), await context.connect()
    request = context.request(name)._replace(share=Share("semaphore", 1, 2))
    first = grant_of(await engine_of(client).acquire(request))
    again = grant_of(await engine_of(client).acquire(request))
    expect(again.fence == first.fence and again.share == first.share, f"{first!r}, then {again!r}")
    second = context.request(name)._replace(share=Share("semaphore", 1, 2))
    grant = grant_of(await engine_of(client).acquire(second))
    await engine_of(client).withdraw(second)
    await engine_of(client).withdraw(context.request(name)._replace(share=second.share))
    expect(not await engine_of(client).release(grant), "what was withdrawn is still held")
    expect(await engine_of(client).release(first), "a stranger's withdrawal freed a slot")


@check("shared")
async def a_dead_holder_s_share_comes_back(context: CheckContext) -> None:
    """The share of a holder that died is given to another after its ttl; the others' stay."""
    dead, client = await context.connect(), await context.connect()
    kept = await client.semaphore(context.name(), limit=2, ttl=LONG_S).acquire()
    lost = await dead.semaphore(context.name(), limit=2, ttl=BRIEF_S).acquire()
    context.crash(dead)
    third = client.semaphore(context.name(), limit=2, ttl=LONG_S, timeout=context.timeout)
    heir = await third.acquire()
    expect(heir.slot == lost.slot, f"slot {lost.slot} is free, and {heir.slot} was given")
    expect(heir.fence > lost.fence, "the heir of a slot has no higher fence")
    await context.until_lost(lost)
    kept.check()
    await heir.release()
    await kept.release()
    await lost.release()


@check("shared")
async def shares_are_renewed(context: CheckContext) -> None:
    """The keeper renews slots, read and write locks as it does locks."""
    name, client = context.name(), await context.connect()
    leases = [
        await client.semaphore(name, limit=2, ttl=LONG_S).acquire(),
        await client.rwlock(name, ttl=LONG_S).read().acquire(),
    ]
    for lease in leases:

        async def renewed(lease: object = lease) -> bool:
            context.make_due(client)
            return getattr(lease, "renewals", 0) >= 2

        await context.until(renewed, "a share must be renewed twice")
        lease.check()
        expect(await lease.release(), "a renewed share was not ours any more")


@check("shared")
async def a_writer_becomes_a_reader_without_a_gap(context: CheckContext) -> None:
    """A downgraded write lock keeps its fence, lets readers in and keeps writers out."""
    name, one, other = context.name(), await context.connect(), await context.connect()
    lease = await one.rwlock(name, ttl=LONG_S).write().acquire()
    theirs = other.rwlock(name, ttl=LONG_S, timeout=context.timeout)
    reading = context.start(theirs.read().acquire)
    await context.until_waiting(name)
    fence = lease.fence
    await lease.downgrade()
    lease.check()
    expect(lease.role == "read" and lease.fence == fence, f"it became {lease!r} ({lease.role})")
    reader = await reading.result()
    rival = (await context.connect()).rwlock(name, ttl=LONG_S).write()
    await kept_out(rival, "somebody writes beside a downgraded lock")
    await reader.release()
    await kept_out(rival, "somebody writes beside a downgraded lock alone")
    expect(await lease.release(), "a downgraded lock could not be given back")
    await given(await rival.try_acquire(), "nobody reads any more").release()


@check("shared")
async def a_reader_cannot_become_a_writer(context: CheckContext) -> None:
    """A reader that asks to write gets UsageError, and keeps its read lock."""
    name, client = context.name(), await context.connect()
    lock = client.rwlock(name, ttl=LONG_S)
    reader = await lock.read().acquire()
    hasty = client.rwlock(name, ttl=LONG_S, timeout=BRIEF_S)  # refused at once, or it times out
    await refused(UsageError, hasty.write().acquire(), "writing below one's own read lock")
    reader.check()
    mutex = await (await context.connect()).lock(context.name("mutex"), ttl=LONG_S).acquire()
    await refused(UsageError, mutex.downgrade(), "downgrading a plain lock")
    await mutex.release()
    await reader.release()
    await given(await lock.write().try_acquire(), "nobody reads any more").release()


@check("shared")
async def kinds_have_nothing_in_common(context: CheckContext) -> None:
    """A lock, a semaphore and a read/write lock of one name do not keep each other out."""
    name, client = context.name(), await context.connect()
    lock = given(await client.lock(name, ttl=LONG_S).try_acquire())
    slot = given(await client.semaphore(name, limit=1, ttl=LONG_S).try_acquire())
    writer = given(await client.rwlock(name, ttl=LONG_S).write().try_acquire())
    roles = sorted(holding.role for holding in await client.holders(name))
    expect(roles == ["lock", "semaphore", "write"], f"the holders are {roles}")
    for lease in (slot, lock, writer):
        expect(await lease.release(), f"{lease.role} could not be given back")


@check("shared")
async def shared_holders_and_waiters_are_shown(context: CheckContext) -> None:
    """``inspect`` shows each holder with its role and slot, the limit, and who waits for what."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    leases = [await client.semaphore(name, limit=2, ttl=LONG_S).acquire() for _ in range(2)]
    context.start(other.semaphore(name, limit=2, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name)
    state = await client.inspect(name)
    shown = [(h.role, h.slot, h.fence) for h in state.holders]
    expect(
        sorted(shown, key=str) == sorted([("semaphore", x.slot, x.fence) for x in leases], key=str),
        f"two slots are held, and {shown} is shown",
    )
    expect(state.limit == 2, f"the limit is 2, and {state.limit} is shown")
    expect([w.role for w in state.waiters] == ["semaphore"], f"one waits: {state.waiters}")
    owners = [owner_of(lease) for lease in leases]
    expect(not any(owner in repr(state) for owner in owners), "an owner id is shown")
    for lease in leases:
        await lease.release()


@check("shared", "revoke")
async def all_shares_of_a_name_are_revoked(context: CheckContext) -> None:
    """Revoking a name takes it from all its holders, who are told why."""
    name, client, admin = context.name(), await context.connect(), await context.connect()
    leases = [
        await client.rwlock(name, ttl=LONG_S).read().acquire(),
        await client.rwlock(name, ttl=LONG_S).read().acquire(),
    ]
    expect(await admin.revoke(name, "maintenance"), "two hold it, and nobody was revoked")
    context.make_due(client)
    for lease in leases:
        await context.until_lost(lease)
        expect("maintenance" in str(lease.reason), f"the holder was told: {lease.reason}")
        await lease.release()


@check("shared")
async def a_share_is_released_by_its_owner_alone(context: CheckContext) -> None:
    """Releasing a read lock frees that one, twice frees nothing more, a stranger nothing at all."""
    name, client = context.name(), await context.connect()
    engine = engine_of(client)
    grants = [
        grant_of(await engine.acquire(context.request(name)._replace(share=READ))) for _ in range(2)
    ]
    stranger = grants[0]._replace(owner=context.world.owner())
    expect(not await engine.release(stranger), "a stranger released a read lock")
    expect(await engine.release(grants[0]), "a read lock could not be given back")
    expect(not await engine.release(grants[0]), "it was given back twice")
    write = context.request(name)._replace(share=WRITE)
    expect(isinstance(await engine.acquire(write), Busy), "somebody writes beside a reader")
    expect(await engine.release(grants[1]), "a read lock could not be given back")
    await engine.release(grant_of(await engine.acquire(write)))
