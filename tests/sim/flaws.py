"""Flaws to plant in the engines for many machines, to see that the judge can say no to them.

`defects.py` has those of the protocol over a store. Here are those of Redis, Redlock and guards:
each is a mistake that a lock library has made, or that this one could make in its next change.
`FLAWS` says in which backend and climate it shows, within how many seeds, and which checker says
so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from os.path import dirname
from typing import Any, NamedTuple

import pytest

from fencelock._client import acquire, client, policy, release
from fencelock._client.hold_state import HoldState
from fencelock._client.pending import Pending
from fencelock.engine import Engine
from fencelock.engines.redis import scripts
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.listener import Listener
from fencelock.engines.redis.wire.connection import ScriptCall
from fencelock.engines.redlock import engine as redlock
from fencelock.engines.redlock import quorum
from fencelock.engines.redlock.engine import RedlockEngine
from fencelock.engines.redlock.fanout import Broadcast
from fencelock.engines.redlock.quorum import Election, majority
from fencelock.engines.redlock.votes import is_grant, is_one
from fencelock.engines.waiters import Waiters
from fencelock.errors import OutcomeUnknown, Unavailable
from fencelock.lab import message_text
from fencelock.model import Busy, Grant, Request, granted, next_fence
from fencelock.sim import world
from fencelock.sim.resource import Register, RegisterClient
from fencelock.sim.world import SimWorld
from fencelock.world import NO_LIMIT, World, sleep

Patch = pytest.MonkeyPatch


class Flaw(NamedTuple):
    """One mistake, and where it must be found."""

    plant: Callable[[Patch], None]
    backend: str
    climate: str
    seeds: int
    """It must be found within so many seeds."""
    says: set[str]
    """Which checkers may say so."""
    recipe: str = "lock"
    """What must be played."""


def rewrite(patch: Patch, name: str, *changes: tuple[str, str]) -> None:
    """Change the text of a script; what is to be changed must be there."""
    read = scripts._read

    def changed(folder: str, script: str) -> bytes:
        text = read(folder, script).decode()
        if script == name and folder == dirname(scripts.__file__):
            for old, new in changes:
                assert old in text, f"{name}.lua no longer says {old!r}"
                text = text.replace(old, new)
        return text.encode()

    patch.setattr(scripts, "_read", changed)


# Redis


def release_without_owner(patch: Patch) -> None:
    """Release deletes the key, whoever has it."""
    rewrite(
        patch, "release", ("~= owner then", "== false then"), ("== owner, nil", "~= false, nil")
    )


def renew_without_owner(patch: Patch) -> None:
    """Renewal extends the key, whoever has it, and says that all is well."""
    rewrite(patch, "renew", ("== ARGV[i + 1] then", "~= false then"))


def renew_that_reacquires(patch: Patch) -> None:
    """Renewal sets the key again when it is gone."""
    rewrite(
        patch,
        "renew",
        ("    if redis", "redis.call('SET', KEYS[i], ARGV[i + 1], 'NX')\n    if redis"),
    )


def newcomers_overtake(patch: Patch) -> None:
    """A free key is taken without a look at the queue."""
    rewrite(patch, "acquire", ("if waiting == 0 then", "if true then"))


def count_fences_only(patch: Patch) -> None:
    """The fence is last + 1, and begins anew when the record is lost."""
    rewrite(
        patch,
        "waiters",
        ("if now_us < tonumber(CLOCK_LAST) and now_us > last then return now_us end", ""),
    )
    rewrite(patch, "acquire", ("if #seconds == 10 and fence <", "if #seconds == 99 and fence <"))


def draw_before_the_lock(patch: Patch) -> None:
    """The fence is drawn when one asks for the first time, and the lock is taken later."""
    drawn: dict[str, int] = {}

    acquire = RedlockEngine.acquire

    async def flawed(self: RedlockEngine, request: Request) -> Grant | Busy:
        drawn.setdefault(request.owner, next_fence(0, int(self.world.wall_us())))
        answer = await acquire(self, request)
        if isinstance(answer, Busy):
            return answer
        return answer._replace(fence=drawn[request.owner])

    patch.setattr(RedlockEngine, "acquire", flawed)


def count_from_the_reply(patch: Patch, engine: Any = RedisEngine) -> None:
    """Validity is counted from when the answer came."""
    acquire = engine.acquire

    async def flawed(self: Any, request: Request) -> Grant | Busy:
        answer = await acquire(self, request)
        if isinstance(answer, Busy):
            return answer
        name, owner, fence, ttl, *_ = answer
        return granted(name, owner, fence, ttl, self.world.now())

    patch.setattr(engine, "acquire", flawed)


def hear_no_more(patch: Patch) -> None:
    """A waiter that gives a late grant back is not notified any more."""

    def retract(self: Listener, key: str, owner: str) -> None:
        self.unwatch(key, owner)

    patch.setattr(Listener, "retract", retract)


def believe_an_old_word(patch: Patch) -> None:
    """What a waiter was told of a grant counts, although it has given that grant back."""

    def retract(self: Listener, key: str, owner: str) -> None:
        waiter = self.waiters.by_owner.get(owner)
        if waiter is None or waiter.signal is None:
            self.unwatch(key, owner)

    patch.setattr(Listener, "retract", retract)


def count_from_the_push(patch: Patch) -> None:
    """A lock that was handed over is counted from when the word of it is looked at."""
    pushed_grant = Waiters.pushed_grant

    def late(self: Waiters, owner: str, ttl: float) -> tuple[int, float] | None:
        found = pushed_grant(self, owner, ttl)
        return found and (found[0], self._now())

    patch.setattr(Waiters, "pushed_grant", late)


def trust_the_push(patch: Patch) -> None:
    """Nobody looks after a name by itself: a lease that ends in silence is not noticed."""

    async def none(self: Listener) -> None:
        for awaited in self._awaited.values():
            awaited.due_at = self._world.now() + 10.0

    patch.setattr(Listener, "_send_heartbeats", none)


# Redlock


class _Reachable(Election):
    """Counts a majority of the nodes that answered."""

    _best: int | None = None

    @property
    def fence(self) -> int | None:
        if self._best is None and self._counts:
            count, fence = max((count, fence) for fence, count in self._counts.items())
            return int(fence) if count >= majority(self.answered) else None
        return self._best

    @fence.setter
    def fence(self, fence: int | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._best = fence


def quorum_of_the_reachable(patch: Patch) -> None:
    """A majority of the nodes that can be reached is enough."""
    patch.setattr(redlock, "Election", _Reachable)


def half_is_enough(patch: Patch) -> None:
    """A majority is taken for granted one node too early."""
    patch.setattr(quorum, "majority", lambda nodes: nodes // 2)


def fence_without_write_back(patch: Patch) -> None:
    """A higher fence is handed out and not written to the nodes."""

    async def hand_out(
        self: RedlockEngine, request: Request, keys: Any, votes: Broadcast, asked_at: float
    ) -> Grant | Busy:
        seen = [int(answer[1]) for answer in votes.answers if is_grant(answer)]
        fence = next_fence(max(seen), 0)
        return granted(request.name, request.owner, fence, request.ttl, asked_at)

    patch.setattr(RedlockEngine, "_raise_fence", hand_out)


def release_at_a_majority(patch: Patch) -> None:
    """The lock is given back at as many nodes as are needed to hold it."""

    async def release(self: RedlockEngine, grant: Grant) -> bool:
        call = ScriptCall(self._release, (grant.name,), (grant.owner,))
        ballot = quorum.Ballot(self._nodes, is_one)
        await self._main.send(call, ballot.count_vote, self._until(), only={0, 1})
        return ballot.outcome is True

    patch.setattr(RedlockEngine, "release", release)


def keep_a_minority(patch: Patch) -> None:
    """Votes of an attempt that failed are not given back."""

    async def undo(self: RedlockEngine, request: Request, keys: Any, sent: Broadcast) -> None:
        return None

    patch.setattr(RedlockEngine, "_undo", undo)


def redlock_counts_from_the_reply(patch: Patch) -> None:
    """Validity is counted from when a majority had answered."""
    count_from_the_reply(patch, RedlockEngine)


# What a caller is told, and when


def forget_the_doubt(patch: Patch) -> None:
    """An engine that cannot be reached after a request without an answer: "nothing happened"."""

    async def insist(
        world: World, engine: Engine, request: Request, unknown: OutcomeUnknown | None, limit: float
    ) -> Grant | Busy:
        for _ in range(policy.UNKNOWN_TRIES):
            try:
                return await engine.acquire(request)
            except OutcomeUnknown as error:
                unknown = error
        raise unknown or AssertionError

    patch.setattr(acquire, "_retry_unknown", insist)


def time_out_without_a_word(patch: Patch) -> None:
    """A waiter whose time is over says so, although the engine did not confirm that it left."""
    withdraw = Pending.withdraw

    async def certain(self: Pending, *args: Any, **kwargs: Any) -> bool:
        await withdraw(self, *args, **kwargs)
        return True

    patch.setattr(Pending, "withdraw", certain)


def undo_without_limit(patch: Patch) -> None:
    """A call takes its attempt back for as long as the engine is silent."""
    for module in (acquire, client):
        patch.setattr(module, "grace", lambda world, limit: NO_LIMIT)


def ask_without_limit(patch: Patch) -> None:
    """A request lasts as long as the engine may be silent, whatever the caller's timeout."""
    patch.setattr(SimWorld, "until", lambda world, moment: nullcontext())


def shield_without_limit(patch: Patch) -> None:
    """A cancellation waits for as long as the work that it must not end."""
    patch.setattr(world, "GRACE_S", 3600.0)


def take_silence_for_a_no(patch: Patch) -> None:
    """A release without an answer is said to have done nothing."""

    async def refuse(
        world: World,
        engine: Engine,
        pending: Pending,
        tenure: HoldState,
        began: float,
        error: object,
    ) -> bool:
        raise Unavailable(f"nothing happened: {error}")

    patch.setattr(release, "free_again", refuse)


# Guards


def check_then_write(patch: Patch) -> None:
    """The guard is asked first, and the write comes in a step of its own."""
    serve = Register.serve

    def blind(self: Register, fence: int, value: int | None, reading: bool = False) -> int:
        if value is None:
            return serve(self, fence, None, reading)
        self.value = value
        return value

    write = RegisterClient.write

    async def apart(self: RegisterClient, fence: int, value: int) -> int:
        self._register.check(fence)
        await sleep(self._world, 0.05)
        return await write(self, fence, value)

    patch.setattr(Register, "serve", blind)
    patch.setattr(RegisterClient, "write", apart)


def ignore_reads(patch: Patch) -> None:
    """The guard looks at the fences of writes only."""
    serve = Register.serve

    def writes_only(self: Register, fence: int, value: int | None, reading: bool = False) -> int:
        return self.value if value is None else serve(self, fence, value)

    patch.setattr(Register, "serve", writes_only)


STALE = {"nothing_stale", "no_lost_update"}
TWO = {"believed", "one_holder", "linearizable"}

FLAWS = {
    "release_without_owner": Flaw(release_without_owner, "redis", "pauses", 20, TWO),
    "renew_without_owner": Flaw(renew_without_owner, "redis", "revokes", 300, TWO),
    "renew_that_reacquires": Flaw(renew_that_reacquires, "redis", "revokes", 60, {"told_in_time"}),
    "newcomers_overtake": Flaw(
        newcomers_overtake, "redis", "pauses", 100, {"first_come_first_served"}
    ),
    "believe_an_old_word": Flaw(believe_an_old_word, "redis", "freezes", 1000, TWO),
    "count_from_the_push": Flaw(count_from_the_push, "redis", "naps", 60, TWO),
    "count_fences_only": Flaw(count_fences_only, "redis", "amnesia", 20, {"fences_grow"}),
    "draw_before_the_lock": Flaw(draw_before_the_lock, "redlock", "calm", 20, {"fences_grow"}),
    "count_from_the_reply": Flaw(count_from_the_reply, "redis", "slow", 60, TWO),
    "hear_no_more": Flaw(hear_no_more, "redis", "naps", 200, {"nobody_sleeps"}),
    "trust_the_push": Flaw(trust_the_push, "redis", "crashes", 20, {"nobody_sleeps"}),
    "quorum_of_the_reachable": Flaw(quorum_of_the_reachable, "redlock", "cuts", 60, TWO),
    "half_is_enough": Flaw(half_is_enough, "redlock", "calm", 20, TWO),
    "fence_without_write_back": Flaw(
        fence_without_write_back, "redlock", "clocks", 100, {"fences_grow"}
    ),
    "release_at_a_majority": Flaw(release_at_a_majority, "redlock", "calm", 20, {"left_behind"}),
    "keep_a_minority": Flaw(
        keep_a_minority, "redlock", "calm", 60, {"nobody_sleeps", "left_behind"}
    ),
    "redlock_counts_from_the_reply": Flaw(
        redlock_counts_from_the_reply, "redlock", "slow", 60, TWO
    ),
    "forget_the_doubt": Flaw(forget_the_doubt, "redis", "frozen", 60, {"no_false_word"}),
    "time_out_without_a_word": Flaw(
        time_out_without_a_word, "store", "frozen", 60, {"no_false_word"}
    ),
    "undo_without_limit": Flaw(undo_without_limit, "redis", "frozen", 20, {"ends_in_time"}),
    "ask_without_limit": Flaw(ask_without_limit, "redlock", "frozen", 20, {"ends_in_time"}),
    "shield_without_limit": Flaw(shield_without_limit, "store", "frozen", 20, {"ends_in_time"}),
    "take_silence_for_a_no": Flaw(take_silence_for_a_no, "redis", "flaky", 60, {"no_false_word"}),
    "check_then_write": Flaw(check_then_write, "redis", "naps", 60, STALE),
    "ignore_reads": Flaw(ignore_reads, "store", "pauses", 100, STALE),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """With this flaw in the library."""
    with planting(FLAWS[name]):
        yield


@contextmanager
def planting(flaw: Flaw) -> Iterator[None]:
    """With a flaw in the library."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            flaw.plant(patch)
            _forget_scripts()
            yield
    finally:
        _forget_scripts()


def _forget_scripts() -> None:
    """Have scripts read again, and the names of their digests in what is played."""
    scripts.script.cache_clear()
    message_text.script_names.cache_clear()
