"""What all SQL guards with a table of marks agree on, over every database and way to reach it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencelock import Misconfigured, StaleFence, Unavailable, UsageError
from fencelock.guards.fence import FENCE_MAX
from fencelock.guards.sql import SqlGuard
from tests.guards import sharing
from tests.guards.sql.conftest import Place
from tests.guards.sql.hands import KINDS, TIMEOUT_S, Hand
from tests.guards.sql.looks import NAME, Lease, n, seen

HOSTILE = [
    "'; DROP TABLE stock; --",
    '"quoted"',
    "back`tick",
    "per%cent %s %(name)s",
    "colon :name :mark ::text",
    "back\\slash\\",
    "snow ☃ man",
    "question ? mark",
    "ends with spaces   ",
    "x" * 512,
    "ü" * 256,
]
TOOLKITS = ("sqlalchemy", "django")  # which connect again by themselves


def test_the_holders_own_second_write_passes_and_an_older_fence_does_not(
    place: Place, hand: Hand
) -> None:
    for fence in (5, 5, 8):
        assert hand.do(place.guard.enter(hand.connection, fence, NAME)) is None
        hand.commit()
    with pytest.raises(StaleFence) as caught:
        hand.do(place.guard.enter(hand.connection, 7, NAME))
    hand.rollback()
    assert (caught.value.name, caught.value.offered, caught.value.highest) == (NAME, 7, 8)
    assert seen(place, hand) == 8


def test_a_lease_brings_its_name(place: Place, hand: Hand) -> None:
    hand.do(place.guard.enter(hand.connection, Lease(NAME, 3)))
    hand.do(place.guard.enter(hand.connection, Lease(NAME, 4), name=NAME))
    hand.commit()
    assert seen(place, hand) == 4
    assert seen(place, hand, "another") == 0


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (0, NAME),
        (-1, NAME),
        (True, NAME),
        (FENCE_MAX + 1, NAME),
        (1.5, NAME),
        ("7", NAME),
        (None, NAME),
        (7, None),
        (7, ""),
        (7, b"bytes"),
        (7, "x" * 513),
        (7, "ü" * 257),
        (7, "new\nline"),
        (7, "nul\0"),
        (7, "\ud800"),
        (Lease("other", 7), NAME),
        (Lease(NAME, 0), None),
    ],
)
def test_what_is_no_fence_is_refused_before_anything_is_sent(
    tmp_path: Path, token: Any, name: Any
) -> None:
    place = Place("sqlite3", tmp_path)
    hand = place.hand()  # without the tables
    with pytest.raises(UsageError):
        hand.do(place.guard.enter(hand.connection, token, name))
    place.close()


def test_the_mark_is_raised_with_the_transaction_or_not_at_all(place: Place, hand: Hand) -> None:
    hand.do(place.guard.enter(hand.connection, 5, NAME))
    hand.execute(f"UPDATE {place.rows.table} SET n = 7")
    hand.rollback()
    assert seen(place, hand) == 0
    assert n(place, hand) == (1, 0)
    hand.do(place.guard.enter(hand.connection, 4, NAME))
    hand.execute(f"UPDATE {place.rows.table} SET n = 7")
    hand.commit()
    assert seen(place, hand) == 4
    assert n(place, hand) == (7, 0)


def test_a_refusal_changes_nothing(place: Place, hand: Hand) -> None:
    hand.do(place.guard.enter(hand.connection, 5, NAME))
    hand.commit()
    before = hand.execute(f"SELECT mark, seen_at FROM {place.guard.table}")
    hand.rollback()
    with pytest.raises(StaleFence):
        hand.do(place.guard.enter(hand.connection, 4, NAME))
    hand.commit()
    assert hand.execute(f"SELECT mark, seen_at FROM {place.guard.table}") == before


def test_who_comes_with_another_fence_waits_for_the_open_transaction(
    place: Place, hand: Hand, other: Hand
) -> None:
    hand.do(place.guard.enter(hand.connection, 7, NAME))
    begun, caught = threading.Event(), list[BaseException]()

    def come_late() -> None:
        begun.set()
        try:
            other.do(place.guard.enter(other.connection, 6, NAME))
        except BaseException as error:
            caught.append(error)
        other.rollback()

    late = threading.Thread(target=come_late)
    late.start()
    assert begun.wait(TIMEOUT_S)
    late.join(0.2)  # had it been let in meanwhile, it would have been accepted
    hand.commit()
    late.join(TIMEOUT_S)
    assert [type(error) for error in caught] == [StaleFence], caught
    assert caught[0].highest == 7  # type: ignore[attr-defined]


def test_names_do_not_disturb_each_other(place: Place, hand: Hand) -> None:
    names = [*HOSTILE, NAME, NAME.upper(), "stock:42 ", "stöck:42", "stock:4"]
    for fence, name in enumerate(names, 1):
        hand.do(place.guard.enter(hand.connection, fence, name))
    hand.commit()
    for fence, name in enumerate(names, 1):
        assert seen(place, hand, name) == fence, name
        if fence > 1:
            with pytest.raises(StaleFence) as caught:
                hand.do(place.guard.enter(hand.connection, fence - 1, name))
            hand.rollback()
            assert caught.value.highest == fence


def test_the_largest_fence_of_the_largest_epoch_fits(place: Place, hand: Hand) -> None:
    guard = SqlGuard(place.guard.table, epoch=1023)
    hand.do(guard.enter(hand.connection, FENCE_MAX - 1, NAME))
    hand.do(guard.enter(hand.connection, FENCE_MAX, NAME))
    with pytest.raises(StaleFence):
        hand.do(guard.enter(hand.connection, FENCE_MAX - 1, NAME))
    hand.rollback()


def test_a_new_epoch_begins_below_and_refuses_the_old_one(place: Place, hand: Hand) -> None:
    hand.do(place.guard.enter(hand.connection, 1000, NAME))
    new = SqlGuard(place.guard.table, epoch=1)
    hand.do(new.enter(hand.connection, 1, NAME))
    hand.commit()
    with pytest.raises(StaleFence, match="epoch 1"):
        hand.do(place.guard.enter(hand.connection, 2000, NAME))
    hand.rollback()
    hand.do(new.enter(hand.connection, 2, NAME))
    hand.commit()
    assert seen(place, hand) == 2**53 + 2


def test_a_reset_lets_smaller_fences_in_again(place: Place, hand: Hand) -> None:
    hand.do(place.guard.enter(hand.connection, 1000, NAME))
    hand.do(place.guard.reset(hand.connection, NAME, to=10))
    hand.commit()
    with pytest.raises(StaleFence):
        hand.do(place.guard.enter(hand.connection, 9, NAME))
    hand.rollback()
    hand.do(place.guard.reset(hand.connection, NAME))
    hand.commit()
    hand.do(place.guard.enter(hand.connection, 1, NAME))
    hand.commit()
    for wrong in (-1, 2**53, "3", None, 1.5):
        with pytest.raises(UsageError):
            hand.do(place.guard.reset(hand.connection, NAME, to=wrong))  # type: ignore[arg-type]


def test_only_marks_that_were_not_raised_for_long_are_forgotten(place: Place, hand: Hand) -> None:
    for name in ("old", "new"):
        hand.do(place.guard.enter(hand.connection, 5, name))
    key = "UNHEX('6f6c64')" if place.store == "mysql" else "'old'"
    hand.execute(f"UPDATE {place.guard.table} SET seen_at = seen_at - 3600 WHERE name = {key}")
    hand.commit()
    assert hand.do(place.guard.forget(hand.connection, 7200)) == 0
    assert hand.do(place.guard.forget(hand.connection, 1800.5)) == 1
    hand.commit()
    assert (seen(place, hand, "old"), seen(place, hand, "new")) == (0, 5)
    hand.do(place.guard.enter(hand.connection, 1, "old"))  # as is said: accepted again
    hand.rollback()


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "1", None, True])
def test_forgetting_needs_a_time(tmp_path: Path, seconds: Any) -> None:
    place = Place("sqlite3", tmp_path)
    with pytest.raises(UsageError):
        place.guard.forget(place.hand().connection, seconds)
    place.close()


def test_outside_of_a_transaction_it_refuses_to_pretend(place: Place, hand: Hand) -> None:
    hand.alone()
    with pytest.raises(UsageError, match="outside of a transaction"):
        hand.do(place.guard.enter(hand.connection, 5, NAME))
    assert hand.do(place.guard.mark(hand.connection, NAME)) == 0


def test_a_table_is_made_once_and_told_when_it_is_missing(place: Place, hand: Hand) -> None:
    hand.do(place.guard.create(hand.connection))
    hand.commit()
    elsewhere = SqlGuard(f"{place.guard.table}_x")
    with pytest.raises(Misconfigured, match="create"):
        hand.do(elsewhere.enter(hand.connection, 5, NAME))
    hand.rollback()
    for statement in elsewhere.schema(place.store).split(";"):
        if statement.strip():
            hand.execute(statement)
    hand.commit()
    hand.do(elsewhere.enter(hand.connection, 5, NAME))
    hand.commit()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith(TOOLKITS)])
def test_a_connection_that_is_closed_is_unavailable(kind: str, tmp_path: Path) -> None:
    place = Place(kind, tmp_path)
    hand = place.hand()
    hand.do(hand.connection.close())
    with pytest.raises(Unavailable, match="nothing happened"):
        hand.do(place.guard.enter(hand.connection, 5, NAME))
    if hand.runner is not None:
        hand.runner.close()


class Shared:
    """The table of marks, or a row with its own, as ``sharing`` has it."""

    tells = True

    def __init__(self, place: Place, hand: Hand, row: bool) -> None:
        self._hand, self._row = hand, row
        self._guard: Any = place.rows if row else place.guard
        self._what: Any = {"id": 42} if row else NAME

    def enter(self, fence: int, reading: bool = False) -> None:
        self._do(lambda db: self._guard.enter(db, fence, self._what, reading=reading))

    def write(self, value: int, fence: int) -> None:
        if self._row:
            self._do(lambda db: self._guard.update(db, fence, self._what, {"n": value}))
        else:
            self.enter(fence)

    def mark(self, reading: bool = False) -> int:
        return int(self._do(lambda db: self._guard.mark(db, self._what, reading=reading)))

    def reset(self, to: int) -> None:
        self._do(lambda db: self._guard.reset(db, self._what, to))

    def _do(self, act: Callable[[Any], Any]) -> Any:
        try:
            found = self._hand.do(act(self._hand.connection))
        except BaseException:
            self._hand.rollback()
            raise
        self._hand.commit()
        return found


@pytest.mark.parametrize("row", [False, True], ids=["table", "row"])
def test_readers_have_a_mark_of_their_own(place: Place, hand: Hand, row: bool) -> None:
    face = Shared(place, hand, row)
    sharing.keeps_two_marks(face)
    face.reset(9)  # where a reader was the highest
    assert sharing.marks(face) == (9, 9)


def test_a_table_of_before_readers_serves_writers_and_is_extended(place: Place, hand: Hand) -> None:
    guard = SqlGuard(f"{place.guard.table}_old")
    old = re.sub(r",\s*read_mark \w+,\s*write_mark \w+", "", guard.schema(place.store))
    assert "read_mark" not in old
    hand.execute(old.rstrip(";"))
    hand.commit()
    hand.do(guard.enter(hand.connection, 5, NAME))
    hand.do(guard.reset(hand.connection, NAME, 6))
    hand.commit()
    with pytest.raises(StaleFence) as caught:
        hand.do(guard.enter(hand.connection, 5, NAME))
    hand.rollback()
    assert (caught.value.highest, caught.value.seen) == (6, "write")
    with pytest.raises(Misconfigured, match=r"two more columns: call the guard's create\(\)"):
        hand.do(guard.enter(hand.connection, 7, NAME, reading=True))
    hand.rollback()
    assert hand.do(guard.mark(hand.connection, NAME, reading=True)) == 6
    hand.rollback()
    for _ in range(2):
        hand.do(guard.create(hand.connection))
        hand.commit()
    with pytest.raises(StaleFence):  # what was there is a writer's mark
        hand.do(guard.enter(hand.connection, 5, NAME, reading=True))
    hand.rollback()
    hand.do(guard.enter(hand.connection, 7, NAME, reading=True))
    hand.commit()


def test_a_row_without_the_columns_of_readers_says_so(place: Place, hand: Hand) -> None:
    with pytest.raises(Misconfigured, match="ADD COLUMN fence_read"):
        hand.do(place.rows_of_writers.enter(hand.connection, 5, {"id": 42}, reading=True))
    hand.rollback()
    hand.do(place.rows_of_writers.enter(hand.connection, 5, {"id": 42}))
    hand.do(place.rows_of_writers.reset(hand.connection, {"id": 42}, 3))
    hand.commit()
    assert hand.do(place.rows_of_writers.mark(hand.connection, {"id": 42}, reading=True)) == 3
    with pytest.raises(UsageError, match="held for reading"):
        place.rows.update(hand.connection, Reader(NAME, 5), {"id": 42}, {"n": 1})


class Reader(NamedTuple):
    """As much of a lease of a read lock as a guard looks at."""

    name: str
    fence: int
    role: str = "read"
