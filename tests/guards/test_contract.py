"""What all guards agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import LeaseLost, StaleFence, UsageError
from fencelock.guards.fence import EPOCH_MAX, FENCE_MAX
from fencelock.telemetry import Registry
from tests.guards import sharing
from tests.guards.kits import KITS, Kit


@pytest.fixture
def opened() -> Iterator[list[Kit]]:
    kits: list[Kit] = []
    yield kits
    for kit in kits:
        kit.close()


@pytest.fixture(params=sorted(KITS))
def kit(request: pytest.FixtureRequest, tmp_path: Path, opened: list[Kit]) -> Kit:
    opened.append(KITS[request.param](tmp_path))
    return opened[-1]


@pytest.fixture(params=sorted(name for name, kind in KITS.items() if kind.writes))
def writing(request: pytest.FixtureRequest, tmp_path: Path, opened: list[Kit]) -> Kit:
    opened.append(KITS[request.param](tmp_path))
    return opened[-1]


@pytest.fixture
def at(kit: Kit, opened: list[Kit]) -> Callable[[int], Kit]:
    def other(epoch: int) -> Kit:
        opened.append(kit.at(epoch))
        return opened[-1]

    return other


def test_equal_and_higher_fences_are_accepted(kit: Kit) -> None:
    assert kit.mark("seat") == 0
    for fence in (5, 5, 6, 2000):
        kit.enter(fence, "seat")
        assert kit.mark("seat") == fence


def test_a_smaller_fence_is_refused_with_the_numbers(kit: Kit) -> None:
    kit.enter(7, "seat")
    with pytest.raises(StaleFence) as caught:
        kit.enter(6, "seat")
    assert (caught.value.name, caught.value.offered, caught.value.highest) == ("seat", 6, 7)
    assert kit.mark("seat") == 7


@pytest.mark.parametrize(
    ("kind", "guard"),
    [
        ("redis", "redis"),
        ("redis asyncio", "redis"),
        ("files", "files"),
        ("memory marks", "http"),
        ("sql marks", "sql"),
    ],
)
def test_a_refusal_is_counted_by_the_kind_of_guard_and_the_group(
    kind: str, guard: str, tmp_path: Path, opened: list[Kit]
) -> None:
    kit = KITS[kind](tmp_path)
    opened.append(kit)
    with Registry() as registry:
        kit.enter(7, "seat:4711")
        assert registry.value("fencelock_fence_refused_total") == 0
        for _ in range(2):
            with pytest.raises(StaleFence):
                kit.enter(6, "seat:4711")
    assert registry.value("fencelock_fence_refused_total", guard=guard, group="seat:*") == 2
    assert registry.value("fencelock_fence_refused_total") == 2


def test_a_stale_write_changes_nothing(writing: Kit) -> None:
    writing.write("new", 7, "seat")
    assert writing.mark("seat") == 7
    with pytest.raises(StaleFence) as caught:
        writing.write("old", 6, "seat")
    assert (caught.value.name, caught.value.offered, caught.value.highest) == ("seat", 6, 7)
    assert writing.read("seat") == "new"
    writing.write("newer", 7, "seat")
    assert writing.read("seat") == "newer"


def test_a_read_shuts_older_writers_out(writing: Kit) -> None:
    writing.write("old", 3, "seat")
    writing.enter(4, "seat")
    with pytest.raises(StaleFence):
        writing.write("late", 3, "seat")
    assert writing.read("seat") == "old"


def test_a_lease_brings_its_name_and_fence(kit: Kit) -> None:
    with fencelock.connect("memory://") as client:
        with client.lock("seat") as first:
            kit.enter(first)
        with client.lock("seat") as second:
            kit.enter(second)
            assert kit.mark("seat") == second.fence
            with pytest.raises(StaleFence):
                kit.enter(first.fence, "seat")
            with pytest.raises(LeaseLost):
                kit.enter(first)  # it knows by itself, and nobody is asked


def test_names_do_not_know_each_other(kit: Kit) -> None:
    kit.enter(9, "one")
    kit.enter(1, "other")
    assert (kit.mark("one"), kit.mark("other"), kit.mark("third")) == (9, 1, 0)


def test_a_lease_of_another_name_is_refused(kit: Kit) -> None:
    kit.enter(1, "seat")
    with fencelock.connect("memory://") as client, client.lock("other") as lease:
        with pytest.raises(UsageError, match="other"):
            kit.enter(lease, "seat")
    assert kit.mark("seat") == 1


@pytest.mark.parametrize("bad", [0, -1, 2**53, 2**63, True, 1.5, "5", None, b"5"], ids=repr)
def test_what_is_no_fence_is_refused(kit: Kit, bad: Any) -> None:
    kit.enter(3, "seat")
    with pytest.raises(UsageError):
        kit.enter(bad, "seat")
    assert kit.mark("seat") == 3


def test_the_largest_marks_are_compared_exactly(kit: Kit, at: Callable[[int], Kit]) -> None:
    last = at(EPOCH_MAX)
    last.enter(FENCE_MAX - 1, "seat")
    last.enter(FENCE_MAX, "seat")
    with pytest.raises(StaleFence) as caught:
        last.enter(FENCE_MAX - 1, "seat")
    assert caught.value.highest == FENCE_MAX
    assert last.mark("seat") == 2**63 - 1


def test_a_new_epoch_begins_anywhere_and_ends_the_old_one(
    kit: Kit, at: Callable[[int], Kit]
) -> None:
    kit.enter(1_000_000, "seat")
    at(1).enter(1, "seat")
    with pytest.raises(StaleFence, match="epoch 1"):
        kit.enter(2_000_000, "seat")


@pytest.mark.parametrize("epoch", [-1, EPOCH_MAX + 1, True, "1"], ids=repr)
def test_what_is_no_epoch_is_refused(epoch: Any, at: Callable[[int], Kit]) -> None:
    with pytest.raises(UsageError, match="epoch"):
        at(epoch).enter(1, "seat")


def test_reset_lets_smaller_fences_in(kit: Kit) -> None:
    kit.reset("seat")  # where there is no mark
    kit.enter(100, "seat")
    kit.enter(100, "other")
    kit.reset("seat", 50)
    with pytest.raises(StaleFence):
        kit.enter(49, "seat")
    kit.enter(50, "seat")
    kit.reset("seat")
    assert kit.mark("seat") == 0
    kit.enter(1, "seat")
    assert kit.mark("other") == 100


class Shared:
    """A kit as ``sharing`` has it."""

    tells = True

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def enter(self, fence: int, reading: bool = False) -> None:
        self._kit.enter(fence, "seat", reading)

    def write(self, value: int, fence: int) -> None:
        if self._kit.writes:
            self._kit.write(str(value), fence, "seat")
        else:
            self._kit.enter(fence, "seat")

    def mark(self, reading: bool = False) -> int:
        return self._kit.mark("seat", reading)


def test_readers_have_a_mark_of_their_own(kit: Kit) -> None:
    sharing.keeps_two_marks(Shared(kit))
    kit.reset("seat", 9)
    assert sharing.marks(Shared(kit)) == (9, 9)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_stale_passes_in_any_order(kit: Kit, seed: int) -> None:
    sharing.interleave(Shared(kit), seed)


def test_readers_of_an_epoch_are_shut_out_by_writers_of_the_next(
    kit: Kit, at: Callable[[int], Kit]
) -> None:
    kit.enter(100, "seat", reading=True)
    at(1).enter(1, "seat", reading=True)
    kit.enter(99, "seat", reading=True)  # nobody has written yet
    with pytest.raises(StaleFence, match="epoch 1") as caught:
        kit.enter(200, "seat")
    assert caught.value.seen == "read"
    at(1).enter(2, "seat")
    with pytest.raises(StaleFence, match="epoch 1"):
        kit.enter(300, "seat", reading=True)


def test_a_lease_says_whether_it_reads(kit: Kit) -> None:
    with fencelock.connect("memory://") as client:
        lock = client.rwlock("seat")
        with lock.read() as older, lock.read() as later:
            kit.enter(later)
            kit.enter(older)
            assert (kit.mark("seat"), kit.mark("seat", reading=True)) == (later.fence, 0)
        with lock.write() as writer:
            kit.enter(writer)
            assert kit.mark("seat", reading=True) == writer.fence
            writer.downgrade()
            with lock.read() as beside:
                kit.enter(beside)
                kit.enter(writer)  # as a reader, which nobody has shut out
                with pytest.raises(StaleFence):
                    kit.enter(writer.fence, "seat")


def test_the_slots_of_a_semaphore_are_guarded_apart(kit: Kit) -> None:
    with fencelock.connect("memory://") as client:
        pool = client.semaphore("seat", limit=2)
        with pool as first, client.semaphore("seat", limit=2) as second:
            assert (first.slot, second.slot) == (0, 1)
            kit.enter(second)
            kit.enter(first)  # though its fence is smaller: it is about something else
            kit.enter(first, "seat#0")
            assert (kit.mark("seat#0"), kit.mark("seat#1")) == (first.fence, second.fence)
            for wrong in ("seat", "seat#1"):
                with pytest.raises(UsageError, match="seat#0"):
                    kit.enter(first, wrong)


def test_old_marks_are_forgotten_and_young_ones_are_not(kit: Kit) -> None:
    for name in ("old", "young"):
        kit.enter(100, name)
    assert kit.forget(3600) == 0
    kit.age("old")
    assert kit.forget(3600) == 1
    assert (kit.mark("old"), kit.mark("young")) == (0, 100)
    kit.enter(1, "old")


@pytest.mark.parametrize("seconds", [0, -1, True, "1"], ids=repr)
def test_what_is_no_age_is_refused(kit: Kit, seconds: Any) -> None:
    with pytest.raises(UsageError):
        kit.forget(seconds)
