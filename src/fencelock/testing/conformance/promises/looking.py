"""Check what inspect, scan and revoke report of holders and waiters."""

from __future__ import annotations

import json

from .... import aio
from ....model import Holding, Meta
from ..check import check, expect
from ..context import BRIEF_S, LONG_S, CheckContext, Running, engine_of, owner_of


@check()
async def holders_shows_who_holds(context: CheckContext) -> None:
    """Everybody sees the holder's fence, ttl, age and time left, its process and its own words."""
    client, other = await context.connect(), await context.connect()
    words: Meta = {"job": "päyroll", "try": 3, "share": 0.5, "dry": True, "none": None}
    expect(await other.holders(context.name()) == [], "a free lock must have no holders")
    lease = await client.lock(context.name(), ttl=LONG_S, meta=words).acquire()
    (shown,) = await other.holders(context.name())
    expect((shown.name, shown.fence) == (context.name(), lease.fence), f"{shown!r} is another hold")
    expect(shown.ttl == lease.ttl, f"its ttl is {lease.ttl}, and {shown.ttl} is shown")
    expect(0 <= shown.age < LONG_S, f"its age cannot be {shown.age}")
    expect(0 < shown.remaining <= lease.ttl, f"it cannot have {shown.remaining} s left")
    expect(shown.meta == lease.meta, "others see other words than the holder")
    expect(words.items() <= shown.meta.items(), f"the holder's words became {shown.meta}")
    unit = "task" if context.flavor == "asyncio" else "thread"
    missing = {"host", "pid", unit} - shown.meta.keys()
    expect(not missing, f"who holds it does not say its {missing}")
    await lease.release()
    expect(await other.holders(context.name()) == [], "a released lock is still shown as held")


@check()
async def an_expired_holder_is_not_shown(context: CheckContext) -> None:
    """Whoever let its lease run out is not a holder, though nobody else wants the lock."""
    client = await context.connect()
    await engine_of(client).acquire(context.request(context.name(), ttl=BRIEF_S))

    async def gone() -> bool:
        return await client.holders(context.name()) == []

    await context.until(gone, "an expired holder must vanish")


@check("fifo")
async def waiters_are_shown_in_order(context: CheckContext) -> None:
    """``inspect`` shows who waits, first come first, with their words."""
    name, clients = context.name(), [await context.connect() for _ in range(2)]
    lease = await clients[0].lock(name, ttl=LONG_S).acquire()
    jobs: list[Running[aio.Lease]] = []
    for number in range(3):
        lock = clients[number % 2].lock(
            name, ttl=LONG_S, timeout=context.timeout, meta={"number": number}
        )
        jobs.append(context.start(lock.acquire))
        await context.until_waiting(name, number + 1)
    state = await clients[1].inspect(name)
    expect(state.name == name, f"the state of {state.name!r} is shown for {name!r}")
    expect([holding.fence for holding in state.holders] == [lease.fence], "the holder is wrong")
    numbers = [waiter.meta.get("number") for waiter in state.waiters]
    expect(numbers == [0, 1, 2], f"waiters 0, 1, 2 are shown as {numbers}")
    expect(all(waiter.age >= 0 for waiter in state.waiters), "a waiter has a negative age")
    await lease.release()
    for job in jobs:
        await (await job.result()).release()


@check("scan")
async def scan_lists_names_by_prefix(context: CheckContext) -> None:
    """``scan`` lists the holders of names that begin with exactly the prefix, by name."""
    client, other = await context.connect(), await context.connect()
    words = ("a_b", "a_bc", "axb", "A_b", "a%b", "a*b", "a[b]", "á_b", "b")
    leases = [await client.lock(context.name(word), ttl=LONG_S).acquire() for word in words]

    async def found(prefix: str) -> list[str]:
        listed = await other.scan(context.name(prefix))
        return [holding.name.removeprefix(context.name("")) for holding in listed]

    for prefix in ("", "a", "a_", "a_b", "a%", "a*", "a[", "A", "á", "b", "c"):
        expected = sorted(word for word in words if word.startswith(prefix))
        listed = await found(prefix)
        expect(listed == expected, f"scan({prefix!r}) lists {listed}, not {expected}")
    for lease in leases:
        await lease.release()
    expect(await found("") == [], "released locks are still listed")


@check("scan")
async def scan_shows_what_holders_shows(context: CheckContext) -> None:
    """``scan`` shows the same facts of a holder as ``holders``, and no expired lease."""
    client = await context.connect()
    lease = await client.lock(context.name("held"), ttl=LONG_S, meta={"job": "x"}).acquire()
    await engine_of(client).acquire(context.request(context.name("left"), ttl=BRIEF_S))

    async def alone() -> bool:
        return len(await client.scan(context.name(""))) == 1

    await context.until(alone, "an expired holder must vanish")
    (scanned,), (shown,) = await client.scan(context.name("")), await client.holders(lease.name)
    expect(_facts(scanned) == _facts(shown), f"scan says {scanned}, holders {shown}")
    await lease.release()


@check()
async def nobody_sees_the_owner(context: CheckContext) -> None:
    """The owner id is the right to release: no listing, message or repr gives it away."""
    name, client, rival = context.name(), await context.connect(), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    waiter = context.start(rival.lock(name, ttl=LONG_S, timeout=context.timeout).acquire)
    await context.until_waiting(name)
    state = await rival.inspect(name)
    metas = [json.dumps(dict(waiting.meta)) for waiting in state.waiters]
    answer = await engine_of(rival).acquire(context.request(name))
    texts = [repr(state), repr(lease), repr(answer), *metas]
    owners = [owner_of(lease), *context.record.waiters[name]]
    for owner in owners:
        expect(not any(owner in text for text in texts), "an owner id was given away")
    await lease.release()
    await (await waiter.result()).release()


def _facts(holding: Holding) -> tuple[object, ...]:
    return holding.name, holding.fence, holding.ttl, holding.meta
