"""Fences that grow, leases that end in time, and what is shown of both."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencelock
from fencelock import model


@given(st.integers(0, 2**52), st.lists(st.integers(-(2**62), 2**62), min_size=1))
def test_fences_grow_whatever_the_wall_clock_does(last: int, clock: list[int]) -> None:
    """H26: the clock may step by years in both directions; it only ever lifts the number."""
    for wall_us in clock:
        fence = model.next_fence(last, wall_us)
        assert last < fence
        assert model.check_fence(fence) == fence
        last = fence


def test_a_clock_that_is_right_lifts_the_fence_above_those_of_lost_data() -> None:
    assert model.next_fence(0, 1_700_000_000_000_000) == 1_700_000_000_000_000
    assert model.next_fence(1_800_000_000_000_000, 1_700_000_000_000_000) == 1_800_000_000_000_001


def test_a_clock_in_the_far_future_cannot_use_the_fences_up() -> None:
    assert model.next_fence(41, model.FENCE_MAX) == 42


@given(st.floats(0, 1e9), st.floats(0.05, 7 * 86_400))
def test_a_holder_gives_up_before_the_engine_does(asked_at: float, ttl: float) -> None:
    grant = model.granted("seat", "0" * 32, 7, ttl, asked_at)
    assert (grant.name, grant.owner, grant.fence, grant.ttl) == ("seat", "0" * 32, 7, ttl)
    assert grant.asked_at < grant.valid_until < asked_at + ttl
    assert model.drift(ttl) == pytest.approx(0.01 * ttl + 0.002)


# What is shown


def test_an_owner_id_is_never_shown_whole() -> None:
    owner = "0123456789abcdef0123456789abcdef"
    grant = model.granted("seat", owner, 7, 30, 0)
    assert model.mask(owner) == "012345…"
    for text in (repr(grant), str(grant), f"{grant}"):
        assert owner not in text
        assert owner[6:] not in text
        assert "fence=7" in text


def test_what_is_listed_of_a_holder_has_no_owner_id() -> None:
    for kind in (fencelock.Holding, fencelock.Waiting, fencelock.State):
        assert "owner" not in kind._fields


@pytest.mark.parametrize(
    "value",
    [
        fencelock.State(
            "seat",
            (fencelock.Holding("seat", 7, 30.0, 1.0, 29.0, {"pid": 1}),),
            (fencelock.Waiting(0.5, {"pid": 2}),),
        ),
        fencelock.Traits("correctness", "machine", True, True, True, True),
    ],
)
def test_values_survive_pickling(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
