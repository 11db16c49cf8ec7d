"""When the keeper renews, when it wakes up for that, and when it rests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencelock._client import keeper as keepers
from fencelock._client.hold_state import HoldState
from fencelock.errors import Unavailable
from fencelock.model import granted
from fencelock.sim.tasks import Flag
from tests.unit.keeper.desk import END, TTL, Desk


def test_a_lease_is_renewed_three_times_in_its_ttl_for_as_long_as_it_is_held(desk: Desk) -> None:
    hold = desk.hold()
    desk.run(100 * TTL)
    assert hold.loss is None
    assert 290 <= hold.renewals <= 310


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
    holds = [desk.hold(f"lock-{n}") for n in range(35)]
    desk.run(TTL / 3 + 0.05)
    assert [len(names) for _, names in desk.engine.calls] == [10, 10, 10, 5]
    desk.run(3 * TTL)
    assert all(hold.loss is None and 8 <= hold.renewals <= 11 for hold in holds)
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
    hold = desk.hold(renews=False)
    assert desk.told_at(hold) == END
    assert desk.engine.calls == []
    assert hold.loss is not None
    assert "renewal is off" in hold.loss.reason


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
    hold = desk.hold(ttl=0.1)
    desk.run(2.0)
    assert hold.loss is None
    assert hold.renewals > 40


@pytest.mark.parametrize("idle_for", [0.0, 0.5, 5.0, 500.0])
@pytest.mark.parametrize("late", [0.0, 8.0, 15.0])
def test_a_lease_that_can_wait_is_renewed_in_time_whatever_the_keeper_did(
    desk: Desk, idle_for: float, late: float
) -> None:
    """Also one whose grant came late: it is due sooner, or at once."""
    desk.keeper.drop(desk.hold("first", ttl=0.1))
    desk.run(idle_for + late)
    asked_at = desk.world.now() - late
    hold = HoldState(granted("a", "owner", 7, 30.0, asked_at), "{}", True, None, None, 0)
    desk.keeper.add(hold)
    desk.run(60.0)
    assert hold.loss is None
    first = desk.engine.calls[0][0]
    assert first - asked_at == pytest.approx(max(10.0, late), abs=0.01)
    assert 5 <= hold.renewals <= 7


def test_a_lease_that_was_shortened_by_hand_is_renewed_in_time(desk: Desk) -> None:
    hold = desk.hold(ttl=30.0)
    desk.run(5.2)
    hold.ttl = 0.3
    desk.simulation.play(desk.keeper.renew_now(hold), desk.world)
    assert hold.valid_until() < desk.world.now() + 0.3
    desk.run(3.0)
    assert hold.loss is None
    assert hold.renewals > 20


def test_a_lease_is_looked_after_while_another_renewal_hangs(desk: Desk) -> None:
    desk.engine.hung = Flag()
    desk.hold("hanging")
    desk.run(TTL / 2)
    assert desk.engine.flying == 1
    late = desk.hold("late", ttl=0.5, renews=False)
    assert desk.told_at(late) == pytest.approx(TTL / 2 + 0.5 - 0.007)


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
    hold = desk.hold(**options)
    ttl = float(options.get("ttl", TTL))
    seen = desk.wake_ups()
    for _ in range(100):
        desk.run(0.1)
        in_a_tenth = desk.wake_ups() - seen
        seen += in_a_tenth
        assert in_a_tenth <= 6 + 3 * 0.1 / min(max(ttl / 12, 0.01), 1.0)
        if hold.loss is None:
            assert hold.valid_until() > desk.world.now()
