"""The arithmetic of leases, for every ttl and clock there can be."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fencelock._client.policy import (
    LOOK_MAX_S,
    LOOK_MIN_S,
    RETRY_MAX_S,
    RETRY_MIN_S,
    asked_ttl,
    deadline,
    earlier,
    grouped_until,
    look_at,
    may_renew,
    renew_at,
    retry_at,
)
from fencelock._client.validation import TTL_MAX_S, TTL_MIN_S
from fencelock.model import drift, granted

# A boot clock shows seconds since the start of a machine: ten years is long.
moments = st.floats(0, 10 * 365 * 86_400.0)
ttls = st.floats(TTL_MIN_S, TTL_MAX_S)
chances = st.floats(0, 1, exclude_max=True)
ROUNDING = 1e-6  # of sums with such clocks


@given(moments, ttls)
@example(0.0, TTL_MIN_S)
def test_a_holder_gives_up_before_the_engine_does(asked_at: float, ttl: float) -> None:
    grant = granted("name", "owner", 1, ttl, asked_at)
    assert asked_at < grant.valid_until < asked_at + ttl
    assert drift(ttl) > 0.002 - ROUNDING


@given(moments, ttls, st.floats(0.996, 1.004), st.floats(0.996, 1.004))
def test_clocks_that_run_apart_by_less_than_a_hundredth_do_no_harm(
    asked_at: float, ttl: float, ours: float, theirs: float
) -> None:
    believed_for = (granted("name", "owner", 1, ttl, 0.0).valid_until) / ours
    kept_for = ttl / theirs
    assert believed_for < kept_for


@given(moments, ttls)
@example(0.0, TTL_MIN_S)
def test_a_lease_is_renewed_with_time_left_for_several_tries(asked_at: float, ttl: float) -> None:
    valid_until = granted("name", "owner", 1, ttl, asked_at).valid_until
    at, tries = renew_at(asked_at, ttl), 0
    assert asked_at < at < valid_until
    while at < valid_until and tries < 10:
        at, tries = retry_at(at, ttl), tries + 1
    assert tries >= 4


@given(moments, ttls)
def test_a_retry_takes_a_breath_and_not_a_long_one(now: float, ttl: float) -> None:
    wait = retry_at(now, ttl) - now
    assert RETRY_MIN_S - ROUNDING <= wait <= RETRY_MAX_S + ROUNDING
    assert wait <= ttl / 5 + ROUNDING


@given(moments, ttls)
def test_a_renewal_goes_along_only_when_it_is_nearly_due(now: float, ttl: float) -> None:
    assert now <= grouped_until(now, ttl) <= now + ttl / 10
    just_renewed = renew_at(now, ttl)
    assert just_renewed > grouped_until(now, ttl), "else one renewal would follow the other at once"


@given(ttls, moments, st.none() | st.floats(-10, TTL_MAX_S))
def test_the_ttl_asked_for_ends_with_the_longest_hold(
    ttl: float, now: float, left: float | None
) -> None:
    hold_until = None if left is None else now + left
    asked = asked_ttl(ttl, now, hold_until)
    assert TTL_MIN_S <= asked <= max(ttl, TTL_MIN_S)
    if hold_until is None:
        assert asked == ttl
    elif may_renew(now, hold_until):
        assert now + asked <= hold_until + ROUNDING


@given(moments, st.floats(-10, 1000))
def test_renewing_ends_just_before_the_longest_hold_does(now: float, left: float) -> None:
    assert may_renew(now, None)
    if left > TTL_MIN_S + ROUNDING:
        assert may_renew(now, now + left)
    if left <= TTL_MIN_S - ROUNDING:
        assert not may_renew(now, now + left)


@given(moments, st.none() | st.floats(0, 1e6), moments)
def test_a_deadline_is_so_far_away_and_never_is_later_than_all(
    now: float, timeout: float | None, other: float
) -> None:
    moment = deadline(now, timeout)
    if timeout is None or moment is None:
        assert timeout is moment is None
        assert earlier(moment, other) == other
    else:
        assert moment == now + timeout
        assert earlier(moment, other) == min(moment, other)


@given(moments, st.floats(-1e9, 1e9), chances)
def test_a_waiter_looks_again_soon_but_not_at_once(
    now: float, look_in: float, chance: float
) -> None:
    wait = look_at(now, look_in, chance) - now
    assert LOOK_MIN_S - ROUNDING <= wait <= LOOK_MAX_S + 0.01 + ROUNDING
    if LOOK_MIN_S <= look_in <= LOOK_MAX_S:
        assert look_in - ROUNDING <= wait <= look_in * 1.2 + ROUNDING


@given(moments, chances, chances)
def test_a_crowd_that_was_told_the_same_comes_apart(now: float, one: float, other: float) -> None:
    apart = look_at(now, 0.5, one) - look_at(now, 0.5, other)
    assert abs(apart - (one - other) * 0.01) < ROUNDING
