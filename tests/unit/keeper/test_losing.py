"""When a lease is lost, who is told, and what a holder may change meanwhile."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fencelock.errors import Expired, LeaseLost, Revoked, Unavailable
from fencelock.model import Gone
from fencelock.sim.tasks import Flag
from tests.unit.keeper.desk import END, TTL, Desk


def test_a_hanging_renewal_does_not_delay_the_word_that_a_lease_is_lost(desk: Desk) -> None:
    desk.engine.hung = Flag()
    hold = desk.hold()
    assert desk.told_at(hold) == END
    assert isinstance(hold.loss, Expired)
    assert "was not answered" in hold.loss.reason


def test_an_answer_that_comes_after_the_loss_is_thrown_away(desk: Desk) -> None:
    desk.engine.hung = Flag()
    hold = desk.hold()
    desk.told_at(hold)
    grant = hold.grant
    desk.engine.hung.set()
    desk.run(1.0)
    assert hold.grant is grant
    assert hold.renewals == 0
    assert len(desk.keeper) == 0


def test_a_failing_renewal_is_tried_again_until_the_holders_own_deadline(desk: Desk) -> None:
    desk.engine.failure = Unavailable("the cable is out")
    hold = desk.hold()
    assert desk.told_at(hold) == END
    tries = [at for at, _ in desk.engine.calls]
    assert 5 <= len(tries) <= 20
    assert tries[0] == pytest.approx(TTL / 3)
    assert min(later - at for at, later in pairwise(tries)) >= 0.01
    assert hold.loss is not None
    assert "the cable is out" in hold.loss.reason
    desk.run(10.0)
    assert len(desk.engine.calls) == len(tries), "what is lost is never renewed again"


def test_an_outage_that_is_shorter_than_the_lease_costs_nothing(desk: Desk) -> None:
    hold = desk.hold()
    for _ in range(5):
        desk.engine.failure = Unavailable()
        desk.run(TTL * 0.6)
        desk.engine.failure = None
        desk.run(TTL)
    assert hold.loss is None
    assert hold.failure is None


def test_the_engines_word_that_it_is_gone_is_told_at_once_with_its_reason(desk: Desk) -> None:
    heard: list[LeaseLost] = []
    hold, other = desk.hold("a", on_lost=heard.append), desk.hold("b")
    desk.engine.gone["a"] = Gone("revoked", "the boss wished so")
    assert desk.told_at(hold) == pytest.approx(TTL / 3)
    desk.run(TTL)
    assert isinstance(hold.loss, Revoked)
    assert heard == [hold.loss]
    assert hold.loss.reason == "the boss wished so"
    assert other.loss is None


def test_only_the_first_word_of_a_loss_counts(desk: Desk) -> None:
    heard: list[LeaseLost] = []
    hold = desk.hold(on_lost=heard.append)
    desk.keeper.lose(hold, "revoked", "first")
    desk.keeper.lose(hold, "expired", "second")
    desk.run(2 * TTL)
    assert [loss.reason for loss in heard] == ["first"]


def test_a_frozen_process_is_told_as_soon_as_it_runs_again(desk: Desk) -> None:
    hold = desk.hold()
    desk.run(0.5)
    desk.world.pause()
    desk.run(2 * TTL)
    assert hold.loss is None
    desk.world.resume()
    assert desk.told_at(hold) == 0.5 + 2 * TTL
    assert desk.engine.calls == []


# The longest hold.


@pytest.mark.parametrize("ttl", [0.2, 3.0, 30.0, 300.0])
def test_a_lease_ends_with_its_longest_hold_and_says_so(desk: Desk, ttl: float) -> None:
    hold = desk.hold(ttl=ttl, max_hold=10.0)
    assert 9.95 <= desk.told_at(hold) <= 10.0
    assert hold.loss is not None
    assert hold.loss.reason == "its max_hold was reached"
    for (at, _), asked in zip(desk.engine.calls, desk.engine.asked, strict=True):
        assert at + asked <= 10.0 + 1e-6, "the engine must not keep it longer"


def test_a_longest_hold_that_cannot_be_renewed_is_lost_for_that_reason(desk: Desk) -> None:
    desk.engine.failure = Unavailable("the cable is out")
    hold = desk.hold(max_hold=100.0)
    assert desk.told_at(hold) == END
    assert hold.loss is not None
    assert "the cable is out" in hold.loss.reason


def test_a_longest_hold_that_ended_before_the_answer_came_is_lost_for_that_reason(
    desk: Desk,
) -> None:
    """The process stood still meanwhile; what the engine says of an ended lease is no news."""
    desk.engine.gone["a"] = Gone("expired", "its record is gone")
    desk.engine.hung = Flag()
    hold = desk.hold(max_hold=1.5)
    desk.run(1.2)
    desk.world.pause()
    desk.engine.hung.set()
    desk.run(2 * TTL)
    desk.world.resume()
    desk.told_at(hold)
    assert hold.loss is not None
    assert hold.loss.reason == "its max_hold was reached"


# Renewals by hand.


def test_once_a_shorter_ttl_was_asked_for_the_longer_one_is_believed_no_more(desk: Desk) -> None:
    hold = desk.hold(ttl=30.0)
    desk.run(1.0)
    desk.engine.hung = Flag()
    hold.ttl = 1.0
    desk.simulation.start(desk.keeper.renew_now(hold), desk.world)
    assert desk.told_at(hold) == pytest.approx(1.0 + 1.0 - 0.012)


@pytest.mark.parametrize("answered", [(0, 1), (1, 0)])
@pytest.mark.parametrize(("first", "second"), [(30.0, 1.0), (1.0, 30.0)])
def test_of_renewals_under_way_together_the_shorter_counts(
    desk: Desk, first: float, second: float, answered: tuple[int, int]
) -> None:
    hold = desk.hold(ttl=30.0)
    desk.run(1.0)
    gates = Flag(), Flag()
    for ttl, desk.engine.hung in zip((first, second), gates, strict=True):
        hold.ttl = ttl
        desk.simulation.start(desk.keeper.renew_now(hold), desk.world)
        desk.run(0.1)
    for number in answered:  # nobody knows in which order they were served
        gates[number].set()
        desk.run(0.001)
    assert hold.valid_until() <= 1.0 + 0.1 + 1.0
    desk.engine.hung = None
    desk.run(5.0)
    assert hold.loss is None
    assert hold.grant.ttl == second, "the next renewal, alone, brings what was asked for last"


def test_a_renewal_by_hand_fails_into_the_callers_hands(desk: Desk) -> None:
    hold = desk.hold()
    desk.engine.failure = Unavailable("the cable is out")
    with pytest.raises(Unavailable, match="the cable is out"):
        desk.simulation.play(desk.keeper.renew_now(hold), desk.world)
    assert hold.loss is None
    desk.engine.failure = None
    desk.simulation.play(desk.keeper.renew_now(hold), desk.world)
    assert hold.renewals == 1
