"""What all SQL guards agree on where the fence is a column of the row itself."""

from __future__ import annotations

import pytest

from fencelock import StaleFence
from fencelock.guards.sql import MissingRow
from tests.guards.sql.conftest import Place
from tests.guards.sql.hands import Hand
from tests.guards.sql.looks import NAME, Lease, n


def test_a_row_takes_values_with_its_fence(place: Place, hand: Hand) -> None:
    for fence, value in ((5, 2), (5, 2), (5, 3), (8, 4)):
        assert hand.do(place.rows.update(hand.connection, fence, {"id": 42}, {"n": value})) is None
        hand.commit()
        assert n(place, hand) == (value, fence)
    with pytest.raises(StaleFence) as caught:
        hand.do(place.rows.update(hand.connection, Lease(NAME, 7), {"id": 42}, {"n": 9}))
    hand.rollback()
    assert (caught.value.name, caught.value.offered, caught.value.highest) == (NAME, 7, 8)
    assert n(place, hand) == (4, 8)


def test_entering_a_row_shuts_the_older_out_before_anything_is_written(
    place: Place, hand: Hand
) -> None:
    hand.do(place.rows.enter(hand.connection, 5, {"id": 42}))
    hand.do(place.rows.enter(hand.connection, 5, {"id": 42}))
    hand.commit()
    assert n(place, hand) == (1, 5)
    with pytest.raises(StaleFence):
        hand.do(place.rows.update(hand.connection, 4, {"id": 42}, {"n": 9}))
    hand.rollback()
    assert hand.do(place.rows.mark(hand.connection, {"id": 42})) == 5


def test_a_row_without_a_fence_yet_accepts_any(place: Place, hand: Hand) -> None:
    assert hand.do(place.rows.mark(hand.connection, {"id": 43})) == 0
    hand.do(place.rows.update(hand.connection, 1, {"id": 43, "n": 1}, {"n": 2}))
    hand.commit()
    assert n(place, hand, 43) == (2, 1)


def test_a_row_that_is_not_there_is_told_apart(place: Place, hand: Hand) -> None:
    with pytest.raises(MissingRow, match="id=44"):
        hand.do(place.rows.update(hand.connection, 5, {"id": 44}, {"n": 1}))
    with pytest.raises(MissingRow):
        hand.do(place.rows.mark(hand.connection, {"id": 44}))


def test_a_row_is_reset(place: Place, hand: Hand) -> None:
    hand.do(place.rows.update(hand.connection, 9, {"id": 42}, {"n": 2}))
    hand.do(place.rows.reset(hand.connection, {"id": 42}, to=3))
    hand.do(place.rows.update(hand.connection, 4, {"id": 42}, {"n": 3}))
    hand.do(place.rows.reset(hand.connection, {"id": 42}))
    hand.commit()
    assert n(place, hand) == (3, 0)
