"""Flaws to plant in semaphores, read/write locks, elections, schedules, several locks at once,
barriers and latches, to see that the judge can say no to them: each is a mistake that this library
could make in its next change.

`RECIPE_FLAWS` says where each shows, within how many seeds, and which checker is there for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fencelock._client.hold_state import HoldState
from fencelock._client.lease_lifecycle import LeaseLifecycle
from fencelock._client.lock_options import READ, LockSpec
from fencelock.engines import memory
from fencelock.engines.memory import Store
from fencelock.engines.units import Name, Record
from fencelock.model import Busy, Holding, Request, units_of
from fencelock.recipes import once, several
from fencelock.recipes.barrier import THROUGH, Rendezvous
from fencelock.recipes.board import Board, Observer
from fencelock.recipes.election import LeaderElection
from fencelock.recipes.latch import CountDown
from fencelock.recipes.once import Schedule, Turn
from tests.sim import recipes
from tests.sim.client import Hold
from tests.sim.flaws import Flaw, Patch, rewrite

# Semaphores


def _add_anyhow(self: Name, record: Record) -> None:
    """Give a slot, also where there is none left."""
    taken = {other.share.slot for other in self.records.values() if other.share}
    if record.share is not None and record.share.kind == "semaphore":
        slot = next(slot for slot in count() if slot not in taken)
        record.share = record.share._replace(slot=slot)
    self.records[record.owner] = record


def free_what_expired_twice(patch: Patch) -> None:
    """A unit whose lease is over is counted as free, and once more when it is cleared away."""
    expire, free = Name.expire, Name.free
    again: weakref.WeakKeyDictionary[Name, int] = weakref.WeakKeyDictionary()

    def twice(self: Name, now: float) -> None:
        before = self.free
        expire(self, now)
        again[self] = again.get(self, 0) + self.free - before

    def both(self: Name) -> int:
        counted: int = free.__get__(self)
        return counted + again.get(self, 0)

    patch.setattr(Name, "expire", twice)
    patch.setattr(Name, "free", property(both))
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


# Several locks at once


def keep_what_was_acquired(patch: Patch) -> None:
    """Locks that were acquired before one was busy are not given back."""

    async def keep(*_: object) -> bool:
        return True

    patch.setattr(several, "release_all", keep)


def take_them_as_they_are_named(patch: Patch) -> None:
    """Locks are acquired in the order in which a caller names them."""

    def as_named(names: Sequence[str], spec: Callable[[str], LockSpec]) -> list[LockSpec]:
        return [spec(name) for name in names]

    patch.setattr(recipes, "in_order", as_named)


def leave_out_what_is_busy(patch: Patch) -> None:
    """A lock that could not be acquired is left out."""

    async def some(core: Any, specs: Sequence[LockSpec], timeout: float | None) -> list[Any]:
        answers = [await core.attempt(spec, timeout) for spec in specs]
        return [answer for answer in answers if not isinstance(answer, Busy)]

    patch.setattr(recipes, "acquire_all", some)


def forget_the_first(patch: Patch) -> None:
    """Nobody looks whether the first of them still holds when the last was acquired."""
    patch.setattr(Hold, "check", lambda hold: None)


def give_back_without_limit(patch: Patch) -> None:
    """What was acquired in vain is given back for as long as the engine is silent."""
    patch.setattr(several, "_limit", lambda *_: None)


# Barriers


def _come(patch: Patch, passes: Callable[[list[int], int, int], bool], highest: bool) -> None:
    """Have parties pass a barrier under another condition."""

    async def have_all_come(self: Rendezvous, fence: int, limit: float) -> bool:
        holders = [h.fence for h in (await self._board.inspect(limit)).holders]
        through = await self._through(limit)
        if fence <= through:
            return True
        if fence not in holders or not passes(holders, through, self._parties):
            return False
        await self._board.remember(THROUGH, max(holders) if highest else fence, 3600.0, limit)
        await self._board.announce(limit)
        return True

    patch.setattr(Rendezvous, "_have_all_come", have_all_come)


def go_without_the_last(patch: Patch) -> None:
    """One party fewer is enough."""
    _come(patch, lambda here, through, n: sum(f > through for f in here) >= n - 1, True)


def count_who_has_passed(patch: Patch) -> None:
    """Parties that have passed and not left yet count for the next meeting."""
    _come(patch, lambda here, through, n: len(here) >= n, True)


def pass_alone(patch: Patch) -> None:
    """Whoever sees that all have come writes down that it passes, and not who else does."""
    _come(patch, lambda here, through, n: sum(f > through for f in here) >= n, False)


def wait_for_the_push(patch: Patch) -> None:
    """Nobody is told that others may pass, and nobody looks."""

    async def wait(self: Observer, until: float) -> None:
        await self._core.engine.wait(self._signal, until)

    async def announce(self: Board, limit: float = 0.0) -> None:
        return None

    patch.setattr(Observer, "wait", wait)
    patch.setattr(Board, "announce", announce)


def observe_without_limit(patch: Patch) -> None:
    """To begin to be told of a change has all the time in the world."""
    begin = Observer.begin

    async def patient(self: Observer, limit: float = 0.0) -> None:
        await begin(self)

    patch.setattr(Observer, "begin", patient)


# Latches


def count_every_time(patch: Patch) -> None:
    """A count is counted again when the same one counts again."""
    count_down = CountDown.count_down

    async def anew(self: CountDown, by: str | None) -> int:
        return await count_down(self, None)

    patch.setattr(CountDown, "count_down", anew)


def count_in_one_place(patch: Patch) -> None:
    """Who counts writes over what others have counted."""
    count_down = CountDown.count_down

    async def same(self: CountDown, by: str | None) -> int:
        return await count_down(self, by or "somebody")

    patch.setattr(CountDown, "count_down", same)


def open_a_count_early(patch: Patch) -> None:
    """The count that says for how many it waits is taken for one of them."""
    monkey = CountDown.remaining

    async def early(self: CountDown, *args: float) -> int:
        return max(0, await monkey(self, *args) - 1)

    patch.setattr(CountDown, "remaining", early)


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
    "keep_what_was_acquired": Flaw(
        keep_what_was_acquired, "redis", "calm", 10, {"no_false_word"}, "several"
    ),
    "take_them_as_they_are_named": Flaw(
        take_them_as_they_are_named, "store", "calm", 10, {"no_deadlock"}, "several"
    ),
    "leave_out_what_is_busy": Flaw(
        leave_out_what_is_busy, "redlock", "calm", 10, {"all_or_none"}, "several"
    ),
    "forget_the_first": Flaw(forget_the_first, "store", "calm", 20, {"all_or_none"}, "several"),
    "give_back_without_limit": Flaw(
        give_back_without_limit, "store", "frozen", 20, {"ends_in_time"}, "several"
    ),
    "observe_without_limit": Flaw(
        observe_without_limit, "store", "frozen", 10, {"ends_in_time"}, "latch"
    ),
    "go_without_the_last": Flaw(
        go_without_the_last, "redis", "calm", 10, {"all_have_come"}, "barrier"
    ),
    "count_who_has_passed": Flaw(
        count_who_has_passed, "store", "calm", 10, {"all_have_come"}, "barrier"
    ),
    "pass_alone": Flaw(pass_alone, "store", "calm", 10, {"all_have_come"}, "barrier"),
    "wait_for_the_push": Flaw(
        wait_for_the_push, "redis", "calm", 10, {"none_left_at_a_barrier"}, "barrier"
    ),
    "wait_at_a_latch_for_the_push": Flaw(
        wait_for_the_push, "store", "calm", 10, {"none_left_at_a_latch"}, "latch"
    ),
    "count_every_time": Flaw(count_every_time, "redis", "calm", 10, {"counts_are_kept"}, "latch"),
    "count_in_one_place": Flaw(
        count_in_one_place, "store", "calm", 10, {"counts_are_kept"}, "latch"
    ),
    "open_a_count_early": Flaw(
        open_a_count_early, "redis", "calm", 10, {"counts_are_kept"}, "latch"
    ),
}
