"""Flaws to plant in semaphores, read/write locks, elections and schedules, to see that the judge
can say no to them: each is a mistake that this library could make in its next change.

`RECIPE_FLAWS` says where each shows, within how many seeds, and which checker is there for it.
"""

from __future__ import annotations

import weakref
from itertools import count
from typing import Any

from fencelock._client.hold_state import HoldState
from fencelock._client.lease_lifecycle import LeaseLifecycle
from fencelock._client.lock_options import READ
from fencelock.engines import memory
from fencelock.engines.memory import Store
from fencelock.engines.units import Name, Record
from fencelock.model import Holding, Request, units_of
from fencelock.recipes import once
from fencelock.recipes.election import LeaderElection
from fencelock.recipes.once import Schedule, Turn
from tests.sim.flaws import Flaw, Patch, rewrite

# Semaphores


def _add_anyhow(self: Name, record: Record) -> None:
    """Give a slot, also where there is none left."""
    taken = {other.share.slot for other in self.records.values() if other.share}
    if record.share is not None and record.share.kind == "semaphore":
        slot = next(slot for slot in count() if slot not in taken)
        record.share = record.share._replace(slot=slot)
    self.records[record.owner] = record
    self.free -= units_of(record.share)


def free_what_expired_twice(patch: Patch) -> None:
    """A unit whose lease is over is counted as free, and once more when it is cleared away."""
    expire = Name.expire

    def twice(self: Name, now: float) -> None:
        free = self.free
        expire(self, now)
        self.free += self.free - free

    patch.setattr(Name, "expire", twice)
    patch.setattr(Name, "add", _add_anyhow)


def take_what_was_handed_on(patch: Patch) -> None:
    """Whoever finds that a lease is over takes its unit, which a waiter was just handed."""
    old = "(first and first ~= owner or used + units > limit)"
    new = "(first and first ~= owner or not freed and used + units > limit)"
    rewrite(patch, "share_acquire", (old, new))


def end_a_lease_early(patch: Patch) -> None:
    """The slot of a lease is given away before it is over."""
    expire = Name.expire
    patch.setattr(Name, "expire", lambda name, now: expire(name, now + 0.25))


def number_slots_by_holders(patch: Patch) -> None:
    """The slot is how many others hold the semaphore, and not one that is free."""

    def add(self: Name, record: Record) -> None:
        if record.share is not None and record.share.kind == "semaphore":
            record.share = record.share._replace(slot=len(self.records))
        self.records[record.owner] = record
        self.free -= units_of(record.share)

    patch.setattr(Name, "add", add)


def number_slots_in_redis_by_holders(patch: Patch) -> None:
    """The same on the hot path of a script."""
    old = "if slot then call('ZREM', expiry, member) else slot, slots = slots, slots + 1 end"
    rewrite(patch, "share_acquire", (old, "slot = used"))


def count_fences_anew(patch: Patch) -> None:
    """The fence is counted with the name, which is forgotten when nobody uses it."""
    give = Store.give
    counted: weakref.WeakKeyDictionary[Name, int] = weakref.WeakKeyDictionary()

    def own(self: Store, name: Name, request: Request, now: float, claimed: bool) -> Record:
        record = give(self, name, request, now, claimed)
        record.fence = counted[name] = counted.get(name, 0) + 1
        return record

    patch.setattr(Store, "give", own)


def serve_the_last(patch: Patch) -> None:
    """What comes free goes to the waiter that came last."""

    def last(self: Name, now: float) -> str | None:
        waiting = [one for one in self.queue if one not in self.records]
        return next((one for one in reversed(waiting) if not self.queue[one].lapsed), None)

    patch.setattr(Name, "first", last)


def serve_the_last_in_redis(patch: Patch) -> None:
    """The same in a script."""
    old = "call('ZRANGE', queue, position, position)[1]\n        if not owner"
    rewrite(patch, "shares", (old, old.replace("position", "-1 - position")))


# Readers and writers


def let_readers_past(patch: Patch) -> None:
    """Whoever fits is served before a writer that waits for all to leave."""

    def fitting(self: Name, now: float) -> str | None:
        for owner, waiter in self.queue.items():
            fits = units_of(waiter.request.share) <= self.free
            if fits and not waiter.lapsed and owner not in self.records:
                return owner
        return None

    patch.setattr(Name, "first", fitting)


def let_readers_past_in_redis(patch: Patch) -> None:
    """The same in a script."""
    old = "elseif used + units > limit then\n            first = owner\n            break\n"
    new = "elseif used + units > limit then\n            position = position + 1\n"
    rewrite(patch, "shares", (old, new))


def take_a_writer_for_a_reader(patch: Patch) -> None:
    """One unit is enough for a writer."""
    patch.setattr(memory, "units_of", lambda share: 1)


def take_a_writer_in_redis_for_a_reader(patch: Patch) -> None:
    """The same on the hot path of a script."""
    rewrite(patch, "share_acquire", ("limit - used >= tonumber(ARGV[4])", "limit - used >= 1"))


def downgrade_with_a_gap(patch: Patch) -> None:
    """A writer becomes a reader by leaving, and by coming back as one."""

    async def downgrade(self: LeaseLifecycle, hold: HoldState) -> None:
        self.check(hold)
        hold.downgraded = True
        await self.engine.release(hold.grant)
        grant = hold.grant
        await self.engine.acquire(Request(grant.name, grant.owner, hold.ttl, hold.meta, share=READ))

    patch.setattr(LeaseLifecycle, "downgrade", downgrade)


# Elections


def keep_the_epoch(patch: Patch) -> None:
    """A leader that follows another goes on with the epoch of that one."""
    patch.setattr(memory, "next_fence", lambda last, wall_us: last or wall_us)


def tell_of_an_old_leader(patch: Patch) -> None:
    """Who leads is read once, and told for a while without a look."""
    leader = LeaderElection.leader
    seen: dict[Any, tuple[float, Holding | None]] = {}

    async def remembered(self: LeaderElection) -> Holding | None:
        core = self.board.core
        at, found = seen.get(core, (-10.0, None))
        if core.world.now() - at > 2.0:
            found = await leader(self)
            seen[core] = (core.world.now(), found)
        return found

    patch.setattr(LeaderElection, "leader", remembered)


# Schedules


def forget_a_window_early(patch: Patch) -> None:
    """What was done is remembered for less than its window."""
    patch.setattr(once, "KEEP", 0.2)


def look_only_before(patch: Patch) -> None:
    """Whoever got the lock works, without a look at what was done while it waited."""

    async def due(*_: object) -> bool:
        return True

    patch.setattr(Schedule, "is_due", due)


def remember_before_the_work(patch: Patch) -> None:
    """A window counts as done from when its work begins."""
    begin = Schedule.begin

    async def early(self: Schedule) -> Turn[Any]:
        turn = await begin(self)
        if turn.lease is not None:
            await self.remember(turn.window)
        return turn

    patch.setattr(Schedule, "begin", early)


def remember_what_failed(patch: Patch) -> None:
    """A window counts as done, however its work has ended."""
    end = Schedule.end

    async def anyhow(self: Schedule, turn: Turn[Any], error: BaseException | None) -> None:
        await end(self, turn, None)

    patch.setattr(Schedule, "end", anyhow)


OVERTAKEN, BESIDE = {"first_come_first_served"}, {"no_reader_beside_writer"}

RECIPE_FLAWS = {
    "free_what_expired_twice": Flaw(
        free_what_expired_twice, "store", "naps", 10, {"within_limit"}, "semaphore"
    ),
    "take_what_was_handed_on": Flaw(
        take_what_was_handed_on, "redis", "naps", 60, {"within_limit"}, "semaphore"
    ),
    "end_a_lease_early": Flaw(
        end_a_lease_early, "store", "calm", 10, {"one_per_slot"}, "semaphore"
    ),
    "number_slots_by_holders": Flaw(
        number_slots_by_holders, "store", "calm", 10, {"one_per_slot"}, "semaphore"
    ),
    "number_slots_in_redis_by_holders": Flaw(
        number_slots_in_redis_by_holders, "redis", "calm", 10, {"one_per_slot"}, "semaphore"
    ),
    "count_fences_anew": Flaw(
        count_fences_anew, "store", "calm", 10, {"slot_fences_grow"}, "semaphore"
    ),
    "serve_the_last": Flaw(serve_the_last, "store", "calm", 10, OVERTAKEN, "semaphore"),
    "serve_the_last_in_redis": Flaw(
        serve_the_last_in_redis, "redis", "calm", 10, OVERTAKEN, "semaphore"
    ),
    "let_readers_past": Flaw(let_readers_past, "store", "calm", 10, OVERTAKEN, "rwlock"),
    "let_readers_past_in_redis": Flaw(
        let_readers_past_in_redis, "redis", "calm", 10, OVERTAKEN, "rwlock"
    ),
    "take_a_writer_for_a_reader": Flaw(
        take_a_writer_for_a_reader, "store", "calm", 10, BESIDE, "rwlock"
    ),
    "take_a_writer_in_redis_for_a_reader": Flaw(
        take_a_writer_in_redis_for_a_reader, "redis", "calm", 10, BESIDE, "rwlock"
    ),
    "downgrade_with_a_gap": Flaw(downgrade_with_a_gap, "store", "calm", 10, BESIDE, "rwlock"),
    "keep_the_epoch": Flaw(keep_the_epoch, "store", "calm", 10, {"one_leader"}, "election"),
    "tell_of_an_old_leader": Flaw(
        tell_of_an_old_leader, "redis", "calm", 10, {"one_leader"}, "election"
    ),
    "forget_a_window_early": Flaw(
        forget_a_window_early, "redis", "calm", 10, {"once_per_window"}, "once"
    ),
    "look_only_before": Flaw(look_only_before, "store", "calm", 10, {"once_per_window"}, "once"),
    "remember_before_the_work": Flaw(
        remember_before_the_work, "store", "calm", 10, {"skipped_when_done"}, "once"
    ),
    "remember_what_failed": Flaw(
        remember_what_failed, "redis", "calm", 10, {"skipped_when_done"}, "once"
    ),
}
