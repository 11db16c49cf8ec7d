"""What two looks at an engine tell."""

from __future__ import annotations

import pytest

from fencelock.model import Holding, Waiting
from fencelock.service.scan_diff import Change, Known, differences, look, same_queue


def held(name: str = "a", fence: int = 1, ttl: float = 30.0, left: float = 30.0) -> Holding:
    return Holding(name, fence, ttl, ttl - left, left, {"job": "x"})


def kinds(
    before: list[Holding], after: list[Holding], elapsed: float = 1.0, known: Known | None = None
) -> list[tuple[str, str]]:
    return [
        (change.kind, change.lock.name)
        for change in changes(before, after, elapsed, known or Known(set(), {}))
    ]


def changes(
    before: list[Holding], after: list[Holding], elapsed: float, known: Known
) -> list[Change]:
    return [*differences(look(100.0, before), look(100.0 + elapsed, after), known)]


def test_time_that_passes_is_no_change() -> None:
    assert kinds([held(left=20.0)], [held(left=19.0)]) == []
    assert kinds([held(left=20.0)], [held(left=19.3)]) == []  # an answer that took longer
    assert kinds([held(ttl=0.0, left=0.0)], [held(ttl=0.0, left=0.0)]) == []  # a key without expiry


@pytest.mark.parametrize("ttl", [1.0, 3.0, 30.0, 3600.0])
def test_a_renewal_at_a_third_of_the_ttl_is_seen(ttl: float) -> None:
    assert kinds([held(ttl=ttl, left=ttl * 2 / 3)], [held(ttl=ttl, left=ttl)]) == [("renewed", "a")]


def test_another_fence_is_an_end_and_a_grant() -> None:
    assert kinds([held(fence=1)], [held(fence=2)]) == [("released", "a"), ("granted", "a")]


def test_what_ended_before_its_lease_was_released_and_what_ended_after_has_expired() -> None:
    assert kinds([held(left=20.0)], []) == [("released", "a")]
    assert kinds([held(left=0.5)], []) == [("expired", "a")]
    assert kinds([held(left=29.0)], [], elapsed=300.0) == [("gone", "a")]
    assert kinds([held(ttl=1.0, left=0.9)], []) == [("gone", "a")]
    assert kinds([held(ttl=0.0, left=0.0)], []) == [("released", "a")]


def test_what_calls_have_done_is_believed() -> None:
    known = Known({("a", 1)}, {"b": ("it hangs", "oncall")})
    before = [held("a", left=0.5), held("b", 2), held("b", 3), held("c", left=0.5)]
    found = changes(before, [], 1.0, known)
    assert [(one.kind, one.lock.name) for one in found] == [
        ("released", "a"),
        ("revoked", "b"),
        ("revoked", "b"),
        ("expired", "c"),
    ]
    assert (found[1].reason, found[1].by) == ("it hangs", "oncall")


def test_slots_and_kinds_of_one_name_are_apart() -> None:
    slots = [Holding("s", 1, 30.0, 0.0, 30.0, {}, "semaphore", slot, 3) for slot in range(2)]
    lock = held("s", 1)
    assert kinds(slots, [slots[0]._replace(remaining=29.0), lock]) == [
        ("released", "s"),
        ("granted", "s"),
    ]


def test_a_writer_that_reads_on_has_changed() -> None:
    writer = Holding("r", 7, 30.0, 0.0, 30.0, {}, "write")
    assert kinds([writer], [writer._replace(role="read")]) == [("changed", "r")]


def test_a_queue_is_the_same_while_its_waiters_grow_older() -> None:
    first, second = Waiting(5.0, {"job": "x"}), Waiting(1.0, {"job": "x"})
    older = (first._replace(age=6.0), second._replace(age=2.0))
    assert same_queue((first, second), older, 1.0)
    assert not same_queue((first, second), older[:1], 1.0)
    assert not same_queue((first, second), (older[1], Waiting(0.1, {"job": "x"})), 1.0)
    assert not same_queue((first,), (first._replace(age=6.0, role="read"),), 1.0)
