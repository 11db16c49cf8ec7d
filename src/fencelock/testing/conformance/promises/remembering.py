"""Check what an engine remembers for a name apart from its holders, and how it reports changes.

Once-per-schedule jobs, latches, barriers and elections are built on these.
"""

from __future__ import annotations

from ..check import check, expect
from ..context import BRIEF_S, LONG_S, CheckContext, core_of, engine_of


@check("remembers")
async def what_is_remembered_only_grows(context: CheckContext) -> None:
    """Each item of a name has its number, the highest that was written, for every client."""
    name, one, other = context.name(), await context.connect(), await context.connect()
    expect(not await engine_of(one).recall(name), "something is remembered for a new name")
    for item, number in (("a", 5), ("b", 1 << 52), ("a", 3), ("a", 5), ("b", 0), ("é:/%", 7)):
        await engine_of(one).remember(name, item, number, LONG_S)
    items = dict(await engine_of(other).recall(name))
    expect(items == {"a": 5, "b": 1 << 52, "é:/%": 7}, f"what is remembered is {items}")
    await engine_of(other).remember(name, "a", 6, LONG_S)
    await engine_of(other).remember(name, "c", -1, LONG_S)
    items = dict(await engine_of(one).recall(name))
    expect(items == {"a": 6, "b": 1 << 52, "é:/%": 7, "c": -1}, f"what is remembered is {items}")
    await engine_of(one).forget(name)
    await engine_of(one).forget(name)
    expect(not await engine_of(other).recall(name), "what was forgotten is remembered")


@check("remembers")
async def what_is_remembered_outlives_its_writer(context: CheckContext) -> None:
    """A client that is gone, and one whose lease is over, leave what they wrote."""
    name, writer = context.name(), await context.connect()
    lease = await writer.lock(name, ttl=LONG_S).acquire()
    await engine_of(writer).remember(name, "done", 1, LONG_S)
    await lease.release()
    await writer.close()
    reader = await context.connect()
    items = dict(await engine_of(reader).recall(name))
    expect(items == {"done": 1}, f"what is remembered after its writer closed is {items}")
    expect(not await reader.holders(name), "what is remembered is shown as a holder")
    lease = await reader.lock(name, ttl=LONG_S).acquire(timeout=0)
    await engine_of(reader).remember(name, "done", 2, LONG_S)
    lease.check()
    expect(await lease.release(), "remembering has taken the lock away")
    items = dict(await engine_of(reader).recall(name))
    expect(items == {"done": 2}, f"what is remembered after a release is {items}")


@check("remembers")
async def what_is_kept_briefly_does_not_shorten_the_rest(context: CheckContext) -> None:
    """What is to be kept long is kept, also after something that need not be."""
    name, client = context.name(), await context.connect()
    await engine_of(client).remember(name, "long", 1, LONG_S)
    await engine_of(client).remember(name, "short", 1, BRIEF_S)
    await context.breathe(BRIEF_S * 2)
    items = dict(await engine_of(client).recall(name))
    expect(items.get("long") == 1, f"what is remembered is {items}")


@check("remembers")
async def names_remember_their_own(context: CheckContext) -> None:
    """What is remembered for one name is not remembered for another that looks alike."""
    client, name = await context.connect(), context.name("memo")
    names = [name, f"{name}:", f"{name}/a", f"{name}%", f"{name} ", name.upper(), f"{name}é"]
    for number, each in enumerate(names):
        await engine_of(client).remember(each, "item", number, LONG_S)
    for number, each in enumerate(names):
        items = dict(await engine_of(client).recall(each))
        expect(items == {"item": number}, f"{each!r} has number {number}, and remembers {items}")
    await engine_of(client).forget(names[0])
    for each in names[1:]:
        expect(await engine_of(client).recall(each), f"forgetting {names[0]!r} forgot {each!r}")


@check("observe", "push")
async def observers_are_told(context: CheckContext) -> None:
    """Whoever observes a name is told when it has changed and was announced, until it stops."""
    name, client, other = context.name(), await context.connect(), await context.connect()
    world, engine = core_of(client).world, engine_of(client)
    signal, stranger, second = world.signal(), world.signal(), world.signal()
    await engine.observe(name, signal)
    await engine.observe(name, second)
    await engine.observe(context.name("other"), stranger)
    await engine.unobserve(name, second)
    signal.clear()
    lease = await other.lock(name, ttl=LONG_S).acquire()
    await engine_of(other).announce(name)

    async def told() -> bool:
        return signal.is_set()

    await context.until(told, "an observer must be told of a new holder")
    expect(not stranger.is_set(), "who observes another name was told")
    signal.clear()
    await lease.release()
    await engine_of(other).announce(name)
    await context.until(told, "an observer must be told of a release")
    await engine.unobserve(name, signal)
    await engine.unobserve(context.name("other"), stranger)
