"""The registry of waiters that engines with pushes share."""

from __future__ import annotations

import pytest

from fencelock.engines.waiters import DRIFT, GRAIN_S, HEARTBEAT_S, Waiters


class Flag:
    def __init__(self) -> None:
        self.times = 0

    def set(self) -> None:
        self.times += 1

    def clear(self) -> None:
        self.times = 0

    def is_set(self) -> bool:
        return self.times > 0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def waiters(clock: Clock) -> Waiters:
    return Waiters(clock)


def test_a_grant_counts_from_when_its_owner_joined(waiters: Waiters, clock: Clock) -> None:
    waiters.watch("a", Flag())
    assert waiters.join("a", clock.now)
    clock.now += 3
    assert waiters.notify("a", (7, 2.0))
    assert waiters.pushed_grant("a", 30) == (7, 100 + 2.0 - 2.0 * DRIFT - GRAIN_S)
    assert waiters.pushed_grant("a", 30) is None, "it is told once"


@pytest.mark.parametrize(
    ("waited", "ttl", "why"),
    [
        (3.5, 30, "a wait that is longer than ours was"),
        (-1.0, 30, "a clock that ran back"),
        (2.0, 0.1, "the clocks may have run apart by a tenth of the ttl"),
    ],
)
def test_a_wait_that_cannot_be_tells_nothing(
    waiters: Waiters, clock: Clock, waited: float, ttl: float, why: str
) -> None:
    waiters.join("a", clock.now)
    clock.now += 3
    waiters.notify("a", (7, waited))
    assert waiters.pushed_grant("a", ttl) is None, why


def test_the_first_join_counts(waiters: Waiters, clock: Clock) -> None:
    assert waiters.join("a", clock.now)
    assert not waiters.join("a", clock.now + 50)
    clock.now += 100
    waiters.notify("a", (7, 1.0))
    found = waiters.pushed_grant("a", 30)
    assert found is not None
    assert found[1] < 101


def test_what_was_not_asked_for_is_no_grant(waiters: Waiters) -> None:
    waiters.watch("a", Flag())
    waiters.notify("a", (7, 0.0))
    assert waiters.pushed_grant("a", 30) is None


def test_a_retracted_attempt_is_granted_no_more(waiters: Waiters, clock: Clock) -> None:
    flag = Flag()
    waiters.watch("a", flag)
    waiters.join("a", clock.now)
    waiters.notify("a", (7, 0.0))
    waiters.retract("a")
    assert waiters.pushed_grant("a", 30) is None
    clock.now += 10
    waiters.notify("a", (7, 0.0))  # the push was under way
    assert waiters.pushed_grant("a", 30) is None
    assert not waiters.join("a", clock.now), "when the server began to count is not known any more"
    assert flag.is_set()


def test_a_notification_before_the_wait_is_remembered(waiters: Waiters, clock: Clock) -> None:
    waiters.join("a", clock.now)
    assert waiters.notify("a", None)
    flag = Flag()
    waiters.watch("a", flag)
    assert flag.is_set()
    flag.clear()
    waiters.watch("a", flag)
    assert not flag.is_set(), "once"


def test_a_notification_without_a_grant_voids_the_one_before(
    waiters: Waiters, clock: Clock
) -> None:
    waiters.join("a", clock.now)
    waiters.notify("a", (7, 0.0))
    waiters.notify("a", None)
    clock.now += 1
    assert waiters.pushed_grant("a", 30) is None


def test_waking_leaves_the_grant(waiters: Waiters, clock: Clock) -> None:
    waiters.join("a", clock.now)
    waiters.notify("a", (7, 0.0))
    waiters.wake_all()
    clock.now += 1
    assert waiters.pushed_grant("a", 30) is not None


def test_who_is_not_there_is_not_woken(waiters: Waiters) -> None:
    waiters.watch("a", Flag())
    waiters.unwatch("a")
    waiters.unwatch("a")
    assert not waiters.wake("a")
    assert not waiters.notify("a", (7, 0.0))
    assert waiters.pushed_grant("a", 30) is None
    assert "a" not in waiters


def test_all_look_again_when_the_engine_knows_fewer(waiters: Waiters) -> None:
    flags = [Flag(), Flag()]
    for number, flag in enumerate(flags):
        waiters.watch(str(number), flag)
    assert waiters.confirm(2)
    assert [flag.times for flag in flags] == [0, 0]
    assert not waiters.confirm(1)
    assert [flag.times for flag in flags] == [1, 1]
    waiters.wake_all(["1", "nobody"])
    assert [flag.times for flag in flags] == [1, 2]


def test_a_heartbeat_is_due_now_and_then(waiters: Waiters) -> None:
    assert waiters.heartbeat_due(5.0)
    assert not waiters.heartbeat_due(5.0 + HEARTBEAT_S / 2)
    assert waiters.heartbeat_due(5.0 + HEARTBEAT_S)
    waiters.heartbeat_at = 0.0
    assert waiters.heartbeat_due(6.0)
