"""The keeper, in the simulated world, with an engine that does as it is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from fencelock import observe
from fencelock.engine import Address, Engine
from fencelock.errors import Expired, LeaseLost, Revoked, Unavailable
from fencelock.logic import keeper as keepers
from fencelock.logic.keeper import Keeper
from fencelock.logic.tenure import Tenure
from fencelock.model import Busy, Gone, Grant, Request, State, Traits, granted
from fencelock.world import Job, sleep
from fencelock.worlds.sim import Simulation, SimWorld
from fencelock.worlds.sim_tasks import Flag

TTL = 3.0
END = TTL - 0.032  # when the holder of a lease of this ttl stops believing in it


class Scripted(Engine):
    """Renews whatever it is asked for, in no time, unless it is told otherwise."""

    schemes = ("scripted",)
    traits = Traits("correctness", "process", fence=True, fifo=True, push=True, durable=False)

    def __init__(self, world: SimWorld) -> None:
        super().__init__(world, Address("scripted"))
        self.calls: list[tuple[float, list[str]]] = []
        self.asked: list[float] = []
        self.flying = 0
        self.most_flying = 0
        self.takes = 0.0
        self.failure: Exception | None = None
        self.gone: dict[str, Gone] = {}
        self.hung: Flag | None = None

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        asked_at = self.world.now()
        self.calls.append((asked_at, [grant.name for grant in grants]))
        self.asked += [grant.ttl for grant in grants]
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        try:
            if self.hung is not None:
                await self.world.wait(self.hung, None)
            await sleep(self.world, self.takes)
        finally:
            self.flying -= 1
        if self.failure is not None:
            raise self.failure
        return [
            self.gone.get(g.name) or granted(g.name, g.owner, g.fence, g.ttl, asked_at)
            for g in grants
        ]

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def acquire(self, request: Request) -> Grant | Busy:
        raise NotImplementedError

    async def release(self, grant: Grant) -> bool:
        raise NotImplementedError

    async def withdraw(self, request: Request) -> None:
        raise NotImplementedError

    async def inspect(self, name: str) -> State:
        raise NotImplementedError


class Desk:
    """A keeper at work: a simulation, an engine and the tenures that were handed in."""

    def __init__(self) -> None:
        self.simulation = Simulation(1, steps_max=100_000)
        self.world = self.simulation.world("one")
        self.engine = Scripted(self.world)
        self.keeper = Keeper(self.world, self.engine)

    def hold(
        self,
        name: str = "a",
        ttl: float = TTL,
        renews: bool = True,
        max_hold: float | None = None,
        on_lost: Callable[[LeaseLost], object] | None = None,
    ) -> Tenure:
        now = self.world.now()
        hold_until = None if max_hold is None else now + max_hold
        grant = granted(name, f"owner of {name}", 7, min(ttl, max_hold or ttl), now)
        tenure = Tenure(grant, "{}", renews, hold_until, on_lost, 0)
        tenure.ttl = ttl
        self.keeper.add(tenure)
        return tenure

    def run(self, seconds: float) -> None:
        self.simulation.run(until=self.simulation.now + seconds)

    def told_at(self, tenure: Tenure, seconds_max: float = 60.0) -> float:
        """Run until the tenure is lost and return the moment."""
        end = self.simulation.now + seconds_max
        self.simulation.at(end, bool)
        self.simulation.run(until=lambda: tenure.loss is not None or self.simulation.now >= end)
        assert tenure.loss is not None, "nobody was told"
        return self.simulation.now

    def wake_ups(self) -> int:
        """How often the keeper itself has run so far."""
        return sum("fencelock-keeper" in str(event[1]) for event in self.simulation.trace)


@pytest.fixture
def desk() -> Iterator[Desk]:
    logger = logging.getLogger("fencelock")
    logger.disabled = True
    desk = Desk()
    with desk.simulation:
        yield desk
    logger.disabled = False


# Renewing.


def test_a_lease_is_renewed_three_times_in_its_ttl_for_as_long_as_it_is_held(desk: Desk) -> None:
    tenure = desk.hold()
    desk.run(100 * TTL)
    assert tenure.loss is None
    assert 290 <= tenure.renewals <= 310


def test_renewals_that_are_due_together_go_in_one_request(desk: Desk) -> None:
    for n in range(50):
        desk.hold(f"lock-{n}")
        desk.run(TTL / 12 / 50)
    desk.run(TTL / 3)
    assert [len(names) for _, names in desk.engine.calls] == [50]
    desk.run(2 * TTL)
    assert {len(names) for _, names in desk.engine.calls} == {50}


def test_a_crowd_goes_in_several_requests_of_one_flight(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "BATCH_MAX", 10)
    desk.engine.takes = 0.01
    tenures = [desk.hold(f"lock-{n}") for n in range(35)]
    desk.run(TTL / 3 + 0.05)
    assert [len(names) for _, names in desk.engine.calls] == [10, 10, 10, 5]
    desk.run(3 * TTL)
    assert all(tenure.loss is None and 8 <= tenure.renewals <= 11 for tenure in tenures)
    assert desk.engine.most_flying == 1


def test_a_crowd_is_not_starved_by_those_before_it_while_the_engine_fails(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "BATCH_MAX", 10)
    desk.engine.failure = Unavailable()
    for n in range(30):
        desk.hold(f"lock-{n}")
    desk.run(TTL / 2)
    tried = {name for _, names in desk.engine.calls for name in names}
    assert len(tried) == 30
    assert len(desk.engine.calls) < 30


def test_there_is_one_flight_at_a_time(desk: Desk) -> None:
    desk.engine.takes = 0.5
    for n in range(10):
        desk.hold(f"lock-{n}", ttl=2.0 + n / 4)
        desk.run(0.13)
    desk.run(20.0)
    assert desk.engine.most_flying == 1
    assert len(desk.engine.calls) > 20


def test_a_lease_that_is_not_to_be_renewed_is_not(desk: Desk) -> None:
    tenure = desk.hold(renews=False)
    assert desk.told_at(tenure) == END
    assert desk.engine.calls == []
    assert tenure.loss is not None
    assert "renewal is off" in tenure.loss.reason


# Waking up in time.


def test_a_short_lease_is_looked_after_though_the_keeper_sleeps_for_a_long_one(desk: Desk) -> None:
    desk.hold("long", ttl=3600.0)
    desk.run(10.3)
    short = desk.hold("short", ttl=0.1)
    desk.run(5.0)
    assert short.loss is None
    assert short.renewals > 100


@pytest.mark.parametrize("idle_for", [0.0, 0.5, 5.0, 500.0])
def test_a_lease_is_looked_after_though_the_keeper_had_nothing_to_do(
    desk: Desk, idle_for: float
) -> None:
    desk.keeper.drop(desk.hold("first", ttl=0.1))
    desk.run(idle_for)
    tenure = desk.hold(ttl=0.1)
    desk.run(2.0)
    assert tenure.loss is None
    assert tenure.renewals > 40


@pytest.mark.parametrize("idle_for", [0.0, 0.5, 5.0, 500.0])
@pytest.mark.parametrize("late", [0.0, 8.0, 15.0])
def test_a_lease_that_can_wait_is_renewed_in_time_whatever_the_keeper_did(
    desk: Desk, idle_for: float, late: float
) -> None:
    """Also one whose grant came late: it is due sooner, or at once."""
    desk.keeper.drop(desk.hold("first", ttl=0.1))
    desk.run(idle_for + late)
    asked_at = desk.world.now() - late
    tenure = Tenure(granted("a", "owner", 7, 30.0, asked_at), "{}", True, None, None, 0)
    desk.keeper.add(tenure)
    desk.run(60.0)
    assert tenure.loss is None
    first = desk.engine.calls[0][0]
    assert first - asked_at == pytest.approx(max(10.0, late), abs=0.01)
    assert 5 <= tenure.renewals <= 7


def test_a_lease_that_was_shortened_by_hand_is_renewed_in_time(desk: Desk) -> None:
    tenure = desk.hold(ttl=30.0)
    desk.run(5.2)
    tenure.ttl = 0.3
    desk.simulation.play(desk.keeper.renew_now(tenure), desk.world)
    assert tenure.valid_until() < desk.world.now() + 0.3
    desk.run(3.0)
    assert tenure.loss is None
    assert tenure.renewals > 20


def test_a_lease_is_looked_after_while_another_renewal_hangs(desk: Desk) -> None:
    desk.engine.hung = Flag()
    desk.hold("hanging")
    desk.run(TTL / 2)
    assert desk.engine.flying == 1
    late = desk.hold("late", ttl=0.5, renews=False)
    assert desk.told_at(late) == pytest.approx(TTL / 2 + 0.5 - 0.007)


# Being told.


def test_a_hanging_renewal_does_not_delay_the_word_that_a_lease_is_lost(desk: Desk) -> None:
    desk.engine.hung = Flag()
    tenure = desk.hold()
    assert desk.told_at(tenure) == END
    assert isinstance(tenure.loss, Expired)
    assert "was not answered" in tenure.loss.reason


def test_an_answer_that_comes_after_the_loss_is_thrown_away(desk: Desk) -> None:
    desk.engine.hung = Flag()
    tenure = desk.hold()
    desk.told_at(tenure)
    grant = tenure.grant
    desk.engine.hung.set()
    desk.run(1.0)
    assert tenure.grant is grant
    assert tenure.renewals == 0
    assert len(desk.keeper) == 0


def test_a_failing_renewal_is_tried_again_until_the_holders_own_deadline(desk: Desk) -> None:
    desk.engine.failure = Unavailable("the cable is out")
    tenure = desk.hold()
    assert desk.told_at(tenure) == END
    tries = [at for at, _ in desk.engine.calls]
    assert 5 <= len(tries) <= 20
    assert tries[0] == pytest.approx(TTL / 3)
    assert min(later - at for at, later in pairwise(tries)) >= 0.01
    assert tenure.loss is not None
    assert "the cable is out" in tenure.loss.reason
    desk.run(10.0)
    assert len(desk.engine.calls) == len(tries), "what is lost is never renewed again"


def test_an_outage_that_is_shorter_than_the_lease_costs_nothing(desk: Desk) -> None:
    tenure = desk.hold()
    for _ in range(5):
        desk.engine.failure = Unavailable()
        desk.run(TTL * 0.6)
        desk.engine.failure = None
        desk.run(TTL)
    assert tenure.loss is None
    assert tenure.failure is None


def test_the_engines_word_that_it_is_gone_is_told_at_once_with_its_reason(desk: Desk) -> None:
    heard: list[LeaseLost] = []
    tenure, other = desk.hold("a", on_lost=heard.append), desk.hold("b")
    desk.engine.gone["a"] = Gone("revoked", "the boss wished so")
    assert desk.told_at(tenure) == pytest.approx(TTL / 3)
    desk.run(TTL)
    assert isinstance(tenure.loss, Revoked)
    assert heard == [tenure.loss]
    assert tenure.loss.reason == "the boss wished so"
    assert other.loss is None


def test_only_the_first_word_of_a_loss_counts(desk: Desk) -> None:
    heard: list[LeaseLost] = []
    tenure = desk.hold(on_lost=heard.append)
    desk.keeper.lose(tenure, "revoked", "first")
    desk.keeper.lose(tenure, "expired", "second")
    desk.run(2 * TTL)
    assert [loss.reason for loss in heard] == ["first"]


def test_a_frozen_process_is_told_as_soon_as_it_runs_again(desk: Desk) -> None:
    tenure = desk.hold()
    desk.run(0.5)
    desk.world.pause()
    desk.run(2 * TTL)
    assert tenure.loss is None
    desk.world.resume()
    assert desk.told_at(tenure) == 0.5 + 2 * TTL
    assert desk.engine.calls == []


# The longest hold.


@pytest.mark.parametrize("ttl", [0.2, 3.0, 30.0, 300.0])
def test_a_lease_ends_with_its_longest_hold_and_says_so(desk: Desk, ttl: float) -> None:
    tenure = desk.hold(ttl=ttl, max_hold=10.0)
    assert 9.95 <= desk.told_at(tenure) <= 10.0
    assert tenure.loss is not None
    assert tenure.loss.reason == "its max_hold was reached"
    for (at, _), asked in zip(desk.engine.calls, desk.engine.asked, strict=True):
        assert at + asked <= 10.0 + 1e-6, "the engine must not keep it longer"


def test_a_longest_hold_that_cannot_be_renewed_is_lost_for_that_reason(desk: Desk) -> None:
    desk.engine.failure = Unavailable("the cable is out")
    tenure = desk.hold(max_hold=100.0)
    assert desk.told_at(tenure) == END
    assert tenure.loss is not None
    assert "the cable is out" in tenure.loss.reason


# Renewals by hand.


def test_once_a_shorter_ttl_was_asked_for_the_longer_one_is_believed_no_more(desk: Desk) -> None:
    tenure = desk.hold(ttl=30.0)
    desk.run(1.0)
    desk.engine.hung = Flag()
    tenure.ttl = 1.0
    desk.simulation.start(desk.keeper.renew_now(tenure), desk.world)
    assert desk.told_at(tenure) == pytest.approx(1.0 + 1.0 - 0.012)


@pytest.mark.parametrize("answered", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("first", "second"), [(30.0, 1.0), (1.0, 30.0)])
def test_of_renewals_under_way_together_the_shorter_counts(
    desk: Desk, first: float, second: float, answered: tuple[int, int]
) -> None:
    tenure = desk.hold(ttl=30.0)
    desk.run(1.0)
    gates = Flag(), Flag()
    for ttl, desk.engine.hung in zip((first, second), gates, strict=True):
        tenure.ttl = ttl
        desk.simulation.start(desk.keeper.renew_now(tenure), desk.world)
        desk.run(0.1)
    for number in answered:  # nobody knows in which order they were served
        gates[number].set()
        desk.run(0.001)
    assert tenure.valid_until() <= 1.0 + 0.1 + 1.0
    desk.engine.hung = None
    desk.run(5.0)
    assert tenure.loss is None
    assert tenure.grant.ttl == second, "the next renewal, alone, brings what was asked for last"


def test_a_renewal_by_hand_fails_into_the_callers_hands(desk: Desk) -> None:
    tenure = desk.hold()
    desk.engine.failure = Unavailable("the cable is out")
    with pytest.raises(Unavailable, match="the cable is out"):
        desk.simulation.play(desk.keeper.renew_now(tenure), desk.world)
    assert tenure.loss is None
    desk.engine.failure = None
    desk.simulation.play(desk.keeper.renew_now(tenure), desk.world)
    assert tenure.renewals == 1


# Ending while a renewal is under way.


@pytest.mark.parametrize("answer", ["renewed", "gone", "failed"])
@pytest.mark.parametrize("end", ["retire", "drop"])
def test_a_tenure_that_ends_during_a_flight_is_left_alone(
    desk: Desk, end: str, answer: str
) -> None:
    events: list[observe.Event] = []
    unsubscribe = observe.subscribe(events.append)
    desk.engine.takes = 0.2
    tenure = desk.hold()
    desk.run(TTL / 3 + 0.1)
    assert desk.engine.flying == 1
    grant = tenure.grant
    if end == "retire":
        assert desk.keeper.retire(tenure)
        assert not desk.keeper.retire(tenure)
    else:
        desk.keeper.drop(tenure)
    if answer == "gone" and end == "retire":
        desk.engine.gone["a"] = Gone("expired", "released")
    elif answer == "failed":
        desk.engine.failure = Unavailable()
    desk.run(3 * TTL)
    unsubscribe()
    assert tenure.loss is None
    assert len(desk.engine.calls) == 1
    assert len(desk.keeper) == 0
    if end == "retire":
        assert tenure.grant is grant
        assert [event.kind for event in events] == []


def test_a_tenure_that_ends_before_its_request_is_sent_is_not_in_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "BATCH_MAX", 1)
    desk.engine.takes = 0.1
    desk.hold("first")
    second = desk.hold("second")
    desk.run(TTL / 3 + 0.05)
    desk.keeper.retire(second)
    desk.run(2 * TTL)
    assert {name for _, names in desk.engine.calls for name in names} == {"first"}


def test_closing_ends_the_keeper_and_what_is_under_way(desk: Desk) -> None:
    desk.engine.takes = 0.5
    desk.hold()
    desk.run(TTL / 3 + 0.1)
    desk.simulation.play(desk.keeper.close(desk.world.now() + 5.0), desk.world)
    assert desk.simulation.now == pytest.approx(TTL / 3 + 0.5)
    assert desk.engine.flying == 0
    wake_ups = desk.wake_ups()
    desk.run(10 * TTL)
    assert desk.wake_ups() == wake_ups


def test_closing_does_not_wait_for_ever(desk: Desk) -> None:
    desk.engine.hung = Flag()
    desk.hold()
    desk.run(TTL / 2)
    desk.simulation.play(desk.keeper.close(desk.world.now() + 5.0), desk.world)
    assert desk.simulation.now == pytest.approx(TTL / 2 + 5.0)


# Surviving.


@pytest.mark.parametrize("failure", [ValueError("a bug"), OSError(24, "EMFILE"), MemoryError()])
def test_the_keeper_survives_any_error_of_the_engine(desk: Desk, failure: Exception) -> None:
    tenure = desk.hold()
    desk.engine.failure = failure
    desk.run(TTL / 2)
    desk.engine.failure = None
    desk.run(5 * TTL)
    assert tenure.loss is None
    assert tenure.renewals >= 14


def test_the_keeper_survives_an_engine_that_answers_too_little(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def renew(grants: Sequence[Grant]) -> list[Grant | Gone]:
        return []

    with monkeypatch.context() as patch:
        patch.setattr(desk.engine, "renew", renew)
        tenure = desk.hold()
        desk.run(TTL / 2)
    desk.run(TTL)
    assert tenure.loss is None
    assert tenure.renewals >= 3


def test_the_keeper_survives_what_on_lost_does(desk: Desk) -> None:
    async def fail_later(loss: LeaseLost) -> None:
        await sleep(desk.world, 0.1)
        raise ValueError("later")

    def fail(loss: LeaseLost) -> None:
        raise ValueError("at once")

    heard: list[LeaseLost] = []
    events: list[observe.Event] = []
    unsubscribe = observe.subscribe(events.append)
    for n, on_lost in enumerate((fail, fail_later, heard.append)):
        desk.hold(f"lost-{n}", renews=False, on_lost=on_lost)
    kept = desk.hold("kept")
    desk.run(5 * TTL)
    unsubscribe()
    assert len(heard) == 1
    assert kept.loss is None
    assert [event.kind for event in events].count("callback_failed") == 2
    assert [event.kind for event in events].count("lost") == 3


@pytest.mark.parametrize("label", ["fencelock-renewal", "fencelock-on-lost"])
def test_the_keeper_survives_that_no_thread_can_be_had(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    spawn = desk.world.spawn

    def refuse(work: Coroutine[Any, Any, None], name: str) -> Job:
        if name == label:
            work.close()
            raise RuntimeError("can't start new thread")
        return spawn(work, name)

    doomed = desk.hold("doomed", renews=False, on_lost=lambda loss: None)
    kept = desk.hold("kept", ttl=2 * TTL)
    with monkeypatch.context() as patch:
        patch.setattr(desk.world, "spawn", refuse)
        assert desk.told_at(doomed) == END
        desk.run(0.5)
    desk.run(5 * TTL)
    assert kept.loss is None
    assert kept.renewals >= 5


def test_a_hook_that_fails_keeps_nobody_else_from_being_told(desk: Desk) -> None:
    def fail() -> None:
        raise RuntimeError("the loop is closed")

    heard: list[LeaseLost] = []
    first = desk.hold("first", renews=False, on_lost=heard.append)
    first.hook = fail
    second = desk.hold("second", renews=False, on_lost=heard.append)
    assert desk.told_at(first) == END
    assert desk.told_at(second) == END
    desk.run(1.0)
    assert [loss.name for loss in heard] == ["first", "second"]


def test_a_keeper_that_could_not_start_is_started_by_the_next_lease(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(work: Coroutine[Any, Any, None], name: str) -> Job:
        work.close()
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(desk.world, "spawn", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            desk.hold("first")
    tenure = desk.hold("second")
    desk.run(2 * TTL)
    assert tenure.renewals >= 5


# Resting.


def test_a_keeper_with_nothing_to_do_falls_asleep(desk: Desk) -> None:
    desk.keeper.retire(desk.hold())
    desk.run(60.0)
    wake_ups = desk.wake_ups()
    desk.run(3600.0)
    assert desk.wake_ups() == wake_ups <= 15


def fail(desk: Desk) -> None:
    desk.engine.failure = Unavailable()


def hang(desk: Desk) -> None:
    desk.engine.hung = Flag()


def be_slow(desk: Desk) -> None:
    desk.engine.takes = TTL / 2


def be_quick(desk: Desk) -> None:
    desk.engine.takes = 0.0


@pytest.mark.parametrize("engine", [be_quick, be_slow, fail, hang])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"renews": False},
        {"max_hold": 1.3 * TTL},
        {"max_hold": TTL / 2},
        {"max_hold": 0.06},
        {"ttl": 0.05},
        {"ttl": 3600.0},
        {"ttl": 0.05, "max_hold": 1.0},
        {"renews": False, "max_hold": 2.0},
    ],
    ids=str,
)
def test_the_keeper_never_runs_in_circles(
    desk: Desk, engine: Callable[[Desk], None], options: dict[str, Any]
) -> None:
    engine(desk)
    tenure = desk.hold(**options)
    ttl = float(options.get("ttl", TTL))
    seen = desk.wake_ups()
    for _ in range(100):
        desk.run(0.1)
        in_a_tenth = desk.wake_ups() - seen
        seen += in_a_tenth
        assert in_a_tenth <= 6 + 3 * 0.1 / min(max(ttl / 12, 0.01), 1.0)
        if tenure.loss is None:
            assert tenure.valid_until() > desk.world.now()
