"""Defects to plant, to see that the judge can say no.

Each is a mistake that a lock library has made, or that this one could make in its next change.
`DEFECTS` says in which profile it shows, and what the judge says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import pytest

from fencelock._client import acquire, policy
from fencelock._client.acquire import Waitlist
from fencelock._client.events import Attempt
from fencelock._client.hold_state import HoldState
from fencelock._client.keeper import Keeper
from fencelock._client.pending import Pending
from fencelock.engine import Engine
from fencelock.engines import memory, units
from fencelock.engines.memory import Store
from fencelock.model import Busy, Gone, Grant, Request, granted
from fencelock.sim.world import SimWorld
from fencelock.world import World
from tests.sim.remote import Push, Remote

T = TypeVar("T")
Patch = pytest.MonkeyPatch


class Defect(NamedTuple):
    """One mistake, and where it must be found."""

    plant: Callable[[Patch], None]
    profile: str
    seeds: int
    """It must be found within so many seeds."""
    says: str
    """What the judge must say."""


def forget_to_undo(patch: Patch) -> None:
    """A cancelled or timed out acquire leaves its lock and its place in the queue."""

    async def withdraw(*_: object, **__: object) -> bool:
        return True

    patch.setattr(Pending, "withdraw", withdraw)


def let_a_cancellation_through(patch: Patch) -> None:
    """The clean-up of a cancelled acquire is itself cancelled, and does not go on afterwards."""

    async def shield(self: SimWorld, work: Coroutine[Any, Any, T], plain: bool = False) -> T:
        return await work

    patch.setattr(SimWorld, "shield", shield)
    patch.setattr(Pending, "_start", lambda _: None)


def take_a_push_for_a_grant(patch: Patch) -> None:
    """A waiter that is woken believes that it has the lock, without looking."""

    async def contend(
        world: World,
        engine: Engine,
        request: Request,
        attempt: Attempt,
        deadline: float | None,
        _: float,
        __: Waitlist,
        ___: Busy,
    ) -> Grant | Busy:
        signal = world.signal()
        await engine.watch(request, signal)
        answer = await engine.acquire(request)
        if isinstance(answer, Busy) and await world.wait(signal, deadline):
            return granted(request.name, request.owner, 1, request.ttl, world.now())
        return answer

    patch.setattr(acquire, "_wait_in_queue", contend)


def sleep_through_a_push(patch: Patch) -> None:
    """A push is lost, and there is no slow look to make up for it."""
    patch.setattr(Push, "set", lambda push: None)
    patch.setattr(policy, "look_at", lambda now, look_in, chance: now + 30.0)


def ignore_that_it_is_gone(patch: Patch) -> None:
    """A renewal is told that the record is gone, and goes on as if it had been renewed."""
    take = Keeper._take

    def trustful(self: Keeper, batch: Sequence[HoldState], answers: Sequence[Grant | Gone]) -> None:
        now = self._world.now()
        ours = [
            granted(*tenure.grant[:4], now) if isinstance(answer, Gone) else answer
            for tenure, answer in zip(batch, answers, strict=True)
        ]
        take(self, batch, ours)

    patch.setattr(Keeper, "_take", trustful)


def count_from_the_reply(patch: Patch) -> None:
    """Validity is counted from when the answer came, not from before the request was sent."""

    def stamp(self: Remote, answer: Grant, asked_at: float) -> Grant:
        return granted(answer.name, answer.owner, answer.fence, answer.ttl, self.world.now())

    patch.setattr(Remote, "_stamp", stamp)


def believe_the_longer_ttl(patch: Patch) -> None:
    """A shorter ttl was asked for, and until the answer comes the longer one is believed."""

    def ask(self: Keeper, tenure: HoldState, now: float) -> Grant:
        ttl = policy.asked_ttl(tenure.ttl, now, tenure.hold_until)
        self._asked[tenure] = (self._asked.get(tenure, (0, ttl))[0] + 1, ttl)
        return tenure.grant._replace(ttl=ttl)

    patch.setattr(Keeper, "_ask", ask)


def free_whoever_holds_it(patch: Patch) -> None:
    """Release and withdraw look at the name and not at the owner."""
    leave = Store.leave

    def careless(self: Store, key: units.Key, owner: str, now: float) -> bool:
        name = self.names.get(key)
        return leave(self, key, next(iter(name.records), owner) if name else owner, now)

    patch.setattr(Store, "leave", careless)


def tell_too_late(patch: Patch) -> None:
    """The keeper declares a lease lost only when the engine has long given it up."""

    def lapse(self: Keeper, tenure: HoldState, now: float) -> bool:
        end = tenure.grant.asked_at + tenure.grant.ttl * 1.2
        if not tenure.ended and end <= now:
            self.lose(tenure, "expired", "at last")
        elif tenure.valid_until() <= now:
            tenure.attend_at = end
        return tenure.loss is not None

    patch.setattr(Keeper, "expire_if_due", lapse)


def give_a_fence_twice(patch: Patch) -> None:
    """The counter stands still."""
    patch.setattr(memory, "next_fence", lambda last, wall_us: max(last, 1))


def let_newcomers_overtake(patch: Patch) -> None:
    """A free lock goes to whoever asks next, and the queue is forgotten."""
    patch.setattr(units.Name, "first", lambda name, now: None)


def hand_on_to_the_dead(patch: Patch) -> None:
    """A waiter that does not answer is handed the lock again and again."""
    hand_on = Store.hand_on

    def patient(self: Store, key: units.Key, name: Any, now: float) -> Any:
        for waiter in name.queue.values():
            waiter.lapsed = False
        return hand_on(self, key, name, now)

    patch.setattr(Store, "hand_on", patient)


DEFECTS = {
    "forget_to_undo": Defect(forget_to_undo, "cancels", 20, "something is left behind"),
    "let_a_cancellation_through": Defect(
        let_a_cancellation_through, "cancels", 1000, "something is left behind"
    ),
    "take_a_push_for_a_grant": Defect(take_a_push_for_a_grant, "calm", 5, "is shown as 1"),
    "sleep_through_a_push": Defect(sleep_through_a_push, "calm", 10, "somebody waits"),
    "ignore_that_it_is_gone": Defect(ignore_that_it_is_gone, "revokes", 5, "is believed in"),
    "count_from_the_reply": Defect(count_from_the_reply, "calm", 5, "the engine keeps it until"),
    "believe_the_longer_ttl": Defect(
        believe_the_longer_ttl, "calm", 10, "the engine keeps it until"
    ),
    "free_whoever_holds_it": Defect(free_whoever_holds_it, "calm", 5, "no longer the engine's"),
    "tell_too_late": Defect(tell_too_late, "calm", 20, "nobody was told"),
    "give_a_fence_twice": Defect(give_a_fence_twice, "calm", 2, "was given after"),
    "let_newcomers_overtake": Defect(let_newcomers_overtake, "calm", 10, "was overtaken"),
    "hand_on_to_the_dead": Defect(hand_on_to_the_dead, "crashes", 10, "a newcomer did not get"),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """With this defect in the library."""
    with pytest.MonkeyPatch.context() as patch:
        DEFECTS[name].plant(patch)
        yield
