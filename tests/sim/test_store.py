"""The store of the simulation is the memory engine's: a real store, SQLite, answers as it does.

The same operations, drawn at random, on both, at the same moments of a clock in our hands. It is
the transactions of the SQLite engine that are called, without pushes, by which it passes over the
dead. What its listeners do is done for them: a lease that has ended is noticed whenever somebody
renews or leaves, as it is in memory, and the lock is handed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine, Store
from fencelock.engines.sqlite.transactions import Transactions
from fencelock.engines.sqlite.wire.database import Database
from fencelock.model import Grant, Request
from fencelock.sim.world import Simulation
from fencelock.world import NO_LIMIT
from fencelock.worlds.threads import drive

names = st.sampled_from(["one", "two"])
OWNERS = ["a" * 32, "b" * 32, "c" * 32]
owners = st.sampled_from(OWNERS)
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

    def renew(self, grant: Grant) -> bool:
        gone = self._transactions.renew(self.moment, [grant])
        self._transactions.hand_on_if_free(self.moment, grant.name)
        return not gone

    def leave(self, grant: Grant) -> bool:
        held, _ = self._transactions.leave(self.moment, grant.name, grant.owner)
        self._transactions.hand_on_if_free(self.moment, grant.name)
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
