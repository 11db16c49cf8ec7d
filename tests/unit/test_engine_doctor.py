"""What the doctors of several engines say about clocks and limits."""

from __future__ import annotations

import pytest

from fencelock.engines.doctor import clock, clock_offset, clocks, room


def test_a_clock_is_compared_with_the_middle_of_the_request() -> None:
    assert clock_offset(5_000_000, 2_000_000, 4_000_000) == 2.0
    assert clock_offset(1_000_000, 2_000_000, 4_000_000) == -2.0


@pytest.mark.parametrize("ahead_s", [0.0, 0.9, -0.9])
def test_a_clock_that_agrees_is_no_finding(ahead_s: float) -> None:
    assert clock(ahead_s)[:3] == ("ok", "clock", "the server's clock agrees with ours")


@pytest.mark.parametrize(("ahead_s", "way"), [(3.0, "3.0 s ahead of"), (-90.0, "90.0 s behind")])
def test_a_clock_that_differs_says_by_how_much_and_which_way(ahead_s: float, way: str) -> None:
    found = clock(ahead_s, "the clock of 10.0.0.1:6379", "warning")
    assert found.level == "warning"
    assert found.text == f"the clock of 10.0.0.1:6379 is {way} ours"
    assert "time server" in found.advice


def test_clocks_are_compared_with_each_other() -> None:
    assert clocks({"a:1": 7.0}) == []
    assert clocks({"a:1": 7.0, "b:1": 7.5})[0].level == "ok"
    (found,) = clocks({"a:1": 0.9, "b:1": -0.9, "c:1": 0.0})
    assert (found.level, found.text) == ("warning", "the clocks of b:1 and a:1 are 1.8 s apart")


def test_room_that_runs_out_is_a_warning() -> None:
    assert room("connections", 80, 100, "raise it") == ("ok", "connections", "80 of 100 in use", "")
    assert room("connections", 81, 100, "raise it").level == "warning"
    assert room("connections", 81, 100, "raise it").advice == "raise it"
    assert room("connections", 10_000, 0, "raise it").level == "ok"
