"""What every guard of a store does with a fence, as checks over one protected value.

A folder beside this file has a ``Desk`` for its guard and runs all of them. They need no second
process: what many processes do at once is the claim itself, in ``claim.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import pytest

import fencelock
from fencelock import observe
from fencelock.errors import LeaseLost, StaleFence, UsageError
from fencelock.guards.fence import EPOCH_MAX, FENCE_MAX, Fenced
from fencelock.observe import Event
from tests.faults.flavors import make_due
from tests.guards import sharing

GUARDS = {"dynamodb", "etcd", "s3", "zookeeper"}  # those that run these checks
NAME = "stock:42/ä"  # with what a path or a key would have to escape


class Desk(Protocol):
    """A guard with one value behind it, which is guarded by the name NAME."""

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None: ...

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None: ...

    def read(self) -> str | None: ...

    def mark(self, reading: bool = False) -> int: ...

    def reset(self, to: int = 0) -> None: ...

    def at(self, epoch: int) -> Desk:
        """The same value behind a guard of another epoch."""
        ...


class Token(NamedTuple):
    """What stands for a lease where only its name and fence matter."""

    name: str
    fence: int


def accepts_an_equal_and_a_higher_fence(desk: Desk) -> None:
    assert desk.mark() == 0
    assert desk.enter(33, NAME) is None
    desk.write("a", 33, NAME)
    desk.write("b", 33, NAME)  # the holder's own second write
    desk.write("c", 35, NAME)
    assert desk.enter(35, NAME) == "c"
    assert desk.read() == "c"
    assert desk.mark() == 35


def refuses_a_lower_one_with_both_numbers_and_does_nothing(desk: Desk) -> None:
    desk.write("new", 34, NAME)
    with pytest.raises(StaleFence) as caught:
        desk.write("old", 33, NAME)
    with pytest.raises(StaleFence) as again:
        desk.enter(33, NAME)
    for stale in (caught.value, again.value):
        assert (stale.name, stale.offered, stale.highest) == (NAME, 33, 34)
    assert desk.read() == "new"
    assert desk.mark() == 34


def tells_of_a_refusal_and_of_nothing_else(desk: Desk) -> None:
    seen: list[Event] = []
    unsubscribe = observe.subscribe(seen.append)
    try:
        desk.write("new", 34, NAME)
        desk.enter(34, NAME)
        assert not [event for event in seen if event.kind == "stale"]
        with pytest.raises(StaleFence):
            desk.write("old", 33, NAME)
    finally:
        unsubscribe()
    stale = [event for event in seen if event.kind == "stale"]
    assert [(one.name, one.fence, one.group) for one in stale] == [(NAME, 33, "stock:*/ä")]
    assert stale[0].guard in GUARDS


def a_read_shuts_older_writers_out(desk: Desk) -> None:
    desk.write("a", 33, NAME)
    assert desk.enter(34, NAME) == "a"
    with pytest.raises(StaleFence):
        desk.write("late", 33, NAME)
    assert desk.read() == "a"


def a_write_raises_the_mark_by_itself(desk: Desk) -> None:
    desk.write("a", 33, NAME)
    assert desk.mark() == 33


def compares_numbers_and_not_their_text(desk: Desk) -> None:
    desk.write("a", 9, NAME)
    desk.write("b", 10, NAME)
    desk.write("c", 100, NAME)
    with pytest.raises(StaleFence):
        desk.write("late", 99, NAME)
    desk.write("d", FENCE_MAX, NAME)
    with pytest.raises(StaleFence) as caught:
        desk.enter(FENCE_MAX - 1, NAME)
    assert caught.value.highest == FENCE_MAX


def takes_a_lease(desk: Desk) -> None:
    with fencelock.connect("memory://") as client:
        with client.lock(NAME) as first:
            desk.write("a", first)
        with client.lock(NAME) as second:
            assert desk.enter(second) == "a"
            desk.write("b", second, NAME)
        with pytest.raises(StaleFence) as caught:
            desk.write("late", first.fence, NAME)
    assert (caught.value.offered, caught.value.highest) == (first.fence, second.fence)


def refuses_a_lease_that_knows_that_it_is_over(desk: Desk) -> None:
    """Though nobody has shown a higher fence; and the resource is not asked."""
    with fencelock.connect("memory://") as client:
        released = client.lock(NAME).acquire()
        released.release()
        lost = client.lock(NAME).acquire()
        client.revoke(NAME, "maintenance")
        make_due(lost)
        assert lost.lost.wait(20)
        for lease in (released, lost):
            with pytest.raises(LeaseLost):
                desk.enter(lease)
            with pytest.raises(LeaseLost):
                desk.write("late", lease)
    assert desk.read() is None
    assert desk.mark() == 0


def an_epoch_is_higher_than_every_fence_of_the_one_before(desk: Desk) -> None:
    desk.write("a", FENCE_MAX, NAME)
    moved = desk.at(1)
    moved.write("b", 1, NAME)
    with pytest.raises(StaleFence, match="moved on to epoch 1"):
        desk.write("late", FENCE_MAX, NAME)
    desk.at(EPOCH_MAX).write("c", FENCE_MAX, NAME)
    with pytest.raises(StaleFence):
        moved.enter(FENCE_MAX, NAME)
    assert desk.read() == "c"


def reset_lets_smaller_fences_in(desk: Desk) -> None:
    desk.write("a", 33, NAME)
    desk.reset(7)
    assert desk.mark() == 7
    with pytest.raises(StaleFence):
        desk.write("late", 6, NAME)
    desk.reset()
    assert desk.mark() == 0
    assert desk.read() == "a"
    desk.write("b", 1, NAME)
    assert desk.mark() == 1


def refuses_what_is_no_fence(desk: Desk) -> None:
    bad: list[object] = [0, -1, FENCE_MAX + 1, True, 1.0, "7", None, b"7", Token(NAME, 0)]
    for fence in bad:
        for call in (desk.enter, lambda lease, name: desk.write("bad", lease, name)):
            with pytest.raises(UsageError):
                call(fence, NAME)  # type: ignore[arg-type]  # which is the point
    with pytest.raises(UsageError, match="name="):
        desk.enter(7)
    with pytest.raises(UsageError, match="says nothing about"):
        desk.write("bad", Token("another", 7), NAME)
    for epoch in (-1, EPOCH_MAX + 1):
        with pytest.raises(UsageError, match="epoch"):
            desk.at(epoch).enter(1, NAME)
    assert desk.read() is None
    assert desk.mark() == 0


class _Numbered:
    """A desk as ``sharing`` has it."""

    tells = True

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.mark = desk.mark

    def enter(self, fence: int, reading: bool = False) -> object:
        return self._desk.enter(fence, NAME, reading)

    def write(self, value: int, fence: int) -> None:
        self._desk.write(str(value), fence, NAME)


def readers_have_a_mark_of_their_own(desk: Desk) -> None:
    sharing.keeps_two_marks(_Numbered(desk))
    desk.reset(9)
    assert sharing.marks(_Numbered(desk)) == (9, 9)


def a_reset_leaves_no_reader(desk: Desk) -> None:
    desk.enter(9, NAME, reading=True)
    desk.reset(9)
    assert sharing.marks(_Numbered(desk)) == (9, 9)
    desk.reset()
    assert sharing.marks(_Numbered(desk)) == (0, 0)


def takes_the_role_from_the_lease(desk: Desk) -> None:
    with fencelock.connect("memory://") as client:
        lock = client.rwlock(NAME)
        with lock.read() as older, lock.read() as later:
            desk.enter(later)
            desk.enter(older)  # a writer would be refused
            assert (desk.mark(), desk.mark(reading=True)) == (later.fence, 0)
            with pytest.raises(UsageError, match="held for reading"):
                desk.write("no", older)
        with lock.write() as writer:
            desk.write("a", writer)
            assert desk.mark(reading=True) == writer.fence
            with pytest.raises(UsageError, match="says itself"):
                desk.enter(writer, reading=True)
            writer.downgrade()
            with lock.read() as beside:
                desk.enter(beside)
                assert desk.enter(writer) == "a"  # it reads now, and is not shut out
                with pytest.raises(UsageError, match="held for reading"):
                    desk.write("no", writer)
                with pytest.raises(StaleFence) as caught:
                    desk.write("late", writer.fence, NAME)  # what it sent when it could write
    assert (caught.value.highest, caught.value.seen) == (beside.fence, "read")
    assert desk.read() == "a"


CHECKS: tuple[Callable[[Desk], None], ...] = (
    tells_of_a_refusal_and_of_nothing_else,
    accepts_an_equal_and_a_higher_fence,
    refuses_a_lower_one_with_both_numbers_and_does_nothing,
    a_read_shuts_older_writers_out,
    a_write_raises_the_mark_by_itself,
    compares_numbers_and_not_their_text,
    takes_a_lease,
    refuses_a_lease_that_knows_that_it_is_over,
    an_epoch_is_higher_than_every_fence_of_the_one_before,
    reset_lets_smaller_fences_in,
    refuses_what_is_no_fence,
    readers_have_a_mark_of_their_own,
    a_reset_leaves_no_reader,
    takes_the_role_from_the_lease,
)
every_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
