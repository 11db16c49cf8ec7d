"""The store of the simulation is the memory engine's: a real store, SQLite, answers as it does.

The same operations, drawn at random, on both, at the same moments of a clock in our hands. It is
the transactions of the SQLite engine that are called, without pushes, by which it passes over the
dead. What its listeners do is done for them: a lease that has ended is noticed whenever somebody
renews or leaves, as it is in memory, and the lock is handed on.

Semaphores and read/write locks have a story of their own, with slots, limits that differ, writers
that become readers, and what is shown of the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.engines.sqlite.handover import key_of
from fencelock.engines.sqlite.transactions import Transactions
from fencelock.engines.sqlite.wire.database import Database
from fencelock.errors import UsageError
from fencelock.model import READERS_MAX, Grant, Request, Share, State, limits_differ
from fencelock.sim.world import Simulation
from fencelock.world import NO_LIMIT
from fencelock.worlds.threads import drive

names = st.sampled_from(["one", "two"])
OWNERS = ["a" * 32, "b" * 32, "c" * 32, "d" * 32]
owners = st.sampled_from(OWNERS[:3])
ttls = st.sampled_from([0.3, 2.5, 40.0])
steps = st.one_of(
    st.tuples(st.just("acquire"), names, owners, ttls, st.booleans()),
    st.tuples(st.just("acquire"), names, owners, ttls, st.just(True)),
    st.tuples(st.just("renew"), names, owners, ttls, st.none()),
    st.tuples(st.just("leave"), names, owners, st.none(), st.none()),
    st.tuples(st.just("revoke"), names, st.none(), st.none(), st.none()),
    st.tuples(
        st.just("wait"), st.none(), st.none(), st.sampled_from([0.1, 0.6, 3.0, 31.0]), st.none()
    ),
)

TWO, THREE = Share("semaphore", 1, 2), Share("semaphore", 1, 3)
READ, WRITE = Share("rwlock", 1, READERS_MAX), Share("rwlock", READERS_MAX, READERS_MAX)
many = st.sampled_from(OWNERS)
shares = st.sampled_from([TWO, TWO, TWO, THREE, READ, READ, READ, WRITE, WRITE])
shared_steps = st.one_of(
    st.tuples(st.just("acquire"), shares, many, ttls, st.booleans()),
    st.tuples(st.just("acquire"), shares, many, ttls, st.just(True)),
    st.tuples(st.just("renew"), shares, many, ttls, st.none()),
    st.tuples(st.just("leave"), shares, many, st.none(), st.none()),
    st.tuples(st.just("leave"), shares, many, st.none(), st.none()),
    st.tuples(st.sampled_from(["revoke", "inspect"]), *[st.none()] * 4),
    st.tuples(
        st.just("wait"), st.none(), st.none(), st.sampled_from([0.1, 0.6, 3.0, 31.0]), st.none()
    ),
)


class Shared(NamedTuple):
    """What was answered to a request for a share: one of these."""

    fence: int = 0
    share: Share | None = None
    position: int | None = None
    refusal: str = ""


class Model:
    """The memory engine, at moments that we choose."""

    def __init__(self) -> None:
        self.moment = 0.0
        with Simulation(0) as simulation:
            world = simulation.world("store")
        world.now = lambda: self.moment
        self._engine = MemoryEngine(world, Address("memory"), Store(world))

    def acquire(self, request: Request) -> int | tuple[int | None, bool]:
        answer = drive(self._engine.acquire(request))
        return answer.fence if isinstance(answer, Grant) else (answer.position, answer.queued)

    def share(self, request: Request) -> Shared:
        try:
            answer = drive(self._engine.acquire(request))
        except UsageError as error:
            return Shared(refusal=str(error))
        if isinstance(answer, Grant):
            return Shared(answer.fence, answer.share)
        return Shared(position=answer.position)

    def inspect(self, name: str) -> State:
        return drive(self._engine.inspect(name))

    def renew(self, grant: Grant) -> bool:
        (answer,) = drive(self._engine.renew([grant]))
        return isinstance(answer, Grant)

    def leave(self, grant: Grant) -> bool:
        return drive(self._engine.release(grant))

    def revoke(self, name: str) -> bool:
        return drive(self._engine.revoke(name, "why"))


class Real:
    """The transactions of the SQLite engine."""

    def __init__(self, path: Path) -> None:
        self.moment = 0.0
        database = Database(str(path), 5.0, lambda: self.moment, lambda: NO_LIMIT)
        database.open()
        self._transactions = Transactions(database, lambda: int(self.moment * 1e6))
        self.close = database.close

    def acquire(self, request: Request) -> int | tuple[int | None, bool]:
        answer = self._transactions.acquire(self.moment, request, "inbox")
        return answer.fence or (answer.position if request.queue else None, request.queue)

    def share(self, request: Request) -> Shared:
        answer = self._transactions.acquire(self.moment, request, "inbox")
        assert request.share is not None
        if answer.limit:
            return Shared(
                refusal=str(limits_differ(request.name, answer.limit, request.share.limit))
            )
        return Shared(answer.fence, answer.share, None if answer.fence else answer.position)

    def inspect(self, name: str) -> State:
        return self._transactions.inspect(self.moment, name)[0]

    def renew(self, grant: Grant) -> bool:
        gone = self._transactions.renew(self.moment, [grant])
        self._transactions.hand_on_if_free(self.moment, key_of(grant.name, grant.share))
        return not gone

    def leave(self, grant: Grant) -> bool:
        key = key_of(grant.name, grant.share)
        held, _ = self._transactions.leave(self.moment, key, grant.owner)
        self._transactions.hand_on_if_free(self.moment, key)
        return held

    def revoke(self, name: str) -> bool:
        return self._transactions.revoke(self.moment, name, "why")[0]


def do(side: Model | Real, ranks: dict[int, int], step: tuple[Any, ...]) -> object:
    """Take a step at one of the two; fences are numbered in the order of their appearance."""
    verb, name, owner, ttl, queue = step
    if verb == "acquire":
        answer = side.acquire(Request(name, owner, ttl, queue=queue))
        if isinstance(answer, int):
            return ranks.setdefault(answer, len(ranks))
        return answer if queue else "busy"
    grant = Grant(name, owner, 0, ttl or 1.0, 0.0, 0.0)
    if verb == "renew":
        return side.renew(grant)
    return side.revoke(name) if verb == "revoke" else side.leave(grant)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Real]:
    real = Real(tmp_path / "locks.db")
    yield real
    real.close()


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(
    story=[
        ("acquire", "one", OWNERS[1], 0.3, False),
        ("acquire", "one", OWNERS[0], 0.3, True),
        ("wait", None, None, 0.6, None),
        ("renew", "one", OWNERS[1], 0.3, None),
        ("leave", "one", OWNERS[0], None, None),
    ]
)
@example(
    story=[
        ("acquire", "two", OWNERS[2], 0.3, False),
        ("acquire", "two", OWNERS[1], 0.3, True),
        ("wait", None, None, 0.6, None),
        ("leave", "two", OWNERS[0], None, None),
        ("wait", None, None, 0.6, None),
        ("acquire", "two", OWNERS[0], 0.3, True),
    ]
)
@example(
    story=[
        ("acquire", "two", OWNERS[2], 0.3, False),
        ("acquire", "two", OWNERS[1], 0.3, True),
        ("wait", None, None, 0.6, None),
        ("renew", "two", OWNERS[2], 0.3, None),
        ("wait", None, None, 0.6, None),
        ("acquire", "two", OWNERS[0], 0.3, True),
    ]
)
@given(story=st.lists(steps, max_size=25))
def test_a_real_store_answers_as_the_model_does(real: Real, story: list[Any]) -> None:
    real.moment += 100_000.0  # whatever an earlier example left is over
    model = Model()
    model.moment = real.moment
    theirs, ours = dict[int, int](), dict[int, int]()
    told: set[tuple[str, str]] = set()
    for step in story:
        verb, name, owner, seconds, _ = step
        if verb == "wait":
            real.moment = model.moment = real.moment + seconds
        elif verb != "renew" or (name, owner) in told:  # only who was told that it holds renews
            said, expected = do(real, theirs, step), do(model, ours, step)
            if verb == "leave" and (name, owner) not in told:
                continue  # a waiter: whether it was called already hangs on who looked, and when
            assert said == expected, f"{step}: {said!r} and not {expected!r}"
            if verb == "acquire" and isinstance(said, int):
                told.add((name, owner))
            elif verb == "acquire":
                told.discard((name, owner))  # it was told that it waits


def do_shared(side: Model | Real, ranks: dict[int, int], step: tuple[Any, ...]) -> object:
    """Take a step of the other story at one of the two."""
    verb, share, owner, ttl, queue = step
    if verb == "acquire":
        answer = side.share(Request("one", owner, ttl, queue=queue, share=share))
        if answer.fence:
            return answer._replace(fence=ranks.setdefault(answer.fence, len(ranks) + 1))
        return answer if queue else answer._replace(position=None)
    grant = Grant("one", owner, 0, ttl or 1.0, 0.0, 0.0, share)
    if verb == "renew":
        return side.renew(grant)
    if verb == "inspect":
        return seen(side.inspect("one"))
    return side.revoke("one") if verb == "revoke" else side.leave(grant)


def seen(state: State) -> object:
    """What is shown of a name, but for its fences."""
    holders = sorted((h.role, str(h.slot), h.ttl, h.age, h.remaining) for h in state.holders)
    return holders, [(w.role, w.age) for w in state.waiters], state.limit


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example(  # all readers behind a writer are let in at once, and one that does not claim lapses
    story=[
        ("acquire", WRITE, OWNERS[0], 40.0, False),
        ("acquire", READ, OWNERS[1], 40.0, True),
        ("acquire", READ, OWNERS[2], 40.0, True),
        ("acquire", WRITE, OWNERS[3], 40.0, True),
        ("leave", WRITE, OWNERS[0], None, None),
        ("acquire", READ, OWNERS[2], 40.0, True),
        ("wait", None, None, 0.6, None),
        ("acquire", READ, OWNERS[1], 40.0, True),
        ("leave", READ, OWNERS[2], None, None),
        ("acquire", WRITE, OWNERS[3], 40.0, True),
        ("acquire", READ, OWNERS[3], 2.5, True),
    ]
)
@example(  # a writer that became a reader lets the reader at the head of the queue in
    story=[
        ("acquire", WRITE, OWNERS[0], 40.0, False),
        ("acquire", READ, OWNERS[1], 40.0, True),
        ("acquire", WRITE, OWNERS[2], 40.0, True),
        ("acquire", READ, OWNERS[0], 40.0, False),
        ("acquire", READ, OWNERS[1], 40.0, True),
        ("acquire", READ, OWNERS[3], 40.0, True),
    ]
)
@example(  # slots that end and are left, in any order
    story=[
        ("acquire", THREE, OWNERS[0], 0.3, False),
        ("acquire", THREE, OWNERS[1], 40.0, False),
        ("acquire", THREE, OWNERS[2], 40.0, False),
        ("wait", None, None, 0.6, None),
        ("leave", THREE, OWNERS[2], None, None),
        ("acquire", THREE, OWNERS[3], 40.0, False),
        ("acquire", TWO, OWNERS[0], 40.0, True),
        ("acquire", THREE, OWNERS[0], 40.0, False),
    ]
)
@given(story=st.lists(shared_steps, max_size=25))
def test_a_real_store_shares_as_the_model_does(real: Real, story: list[Any]) -> None:
    real.moment += 100_000.0  # whatever an earlier example left is over
    model = Model()
    model.moment = real.moment
    theirs, ours = dict[int, int](), dict[int, int]()
    told: set[tuple[str, str]] = set()
    for step in story:
        verb, share, owner, seconds, _ = step
        held = share is not None and (share.kind, owner) in told
        if verb == "wait":
            real.moment = model.moment = real.moment + seconds
        elif verb != "renew" or held:  # only who was told that it holds renews
            said, expected = do_shared(real, theirs, step), do_shared(model, ours, step)
            if verb != "leave" or held:  # a waiter may have been called, or not yet
                assert said == expected, f"{step}: {said!r} and not {expected!r}"
            if verb == "acquire" and share is not None:
                holds = isinstance(said, Shared) and said.fence
                (told.add if holds else told.discard)((share.kind, owner))
    assert seen(real.inspect("one")) == seen(model.inspect("one"))
