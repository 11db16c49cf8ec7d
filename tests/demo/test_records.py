"""The demo's store refuses an old fence, and its verdict believes only the store's records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fencelock import StaleFence
from fencelock.demo.verdict import Records, Sale, Verdict, judge, read_records
from fencelock.demo.worker import SeatStore, create

EARLY = Sale("1A", "customer 2", "worker 1", 10)
TAKEN = Sale("1B", "customer 1", "worker 2", 12)
LATE = Sale("1B", "customer 2", "worker 1", 11)


def judged(
    sales: list[Sale],
    refusals: list[Sale],
    late: Sale | None,
    loss_known: bool = True,
    unsafe: bool = False,
) -> Verdict:
    seats = {sale.seat: sale.customer for sale in [EARLY, TAKEN, *sales]}
    return judge(2, unsafe, Records(sales, refusals, seats), late, loss_known)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create(tmp_path / "seats.db", 2)
    return tmp_path / "seats.db"


@pytest.fixture
def closer() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_look_with_a_higher_fence_shuts_the_old_holder_out(path: Path, closer: ExitStack) -> None:
    old = closer.enter_context(closing(SeatStore(path, "old")))
    new = closer.enter_context(closing(SeatStore(path, "new")))
    assert old.find_free(1) == "1A"
    assert new.find_free(2) == "1A"
    with pytest.raises(StaleFence) as refused:
        old.sell("1A", "customer 2", 1)
    assert (refused.value.offered, refused.value.highest) == (1, 2)
    with pytest.raises(StaleFence):
        old.find_free(1)
    new.sell("1A", "customer 1", 2)
    assert new.find_free(2) == "1B"
    records = read_records(path)
    assert records.sales == [Sale("1A", "customer 1", "new", 2)]
    assert records.refusals == [Sale("1A", "customer 2", "old", 1)]
    assert records.seats == {"1A": "customer 1", "1B": None}


def test_an_unsafe_store_overwrites(path: Path, closer: ExitStack) -> None:
    old = closer.enter_context(closing(SeatStore(path, "old", unsafe=True)))
    new = closer.enter_context(closing(SeatStore(path, "new", unsafe=True)))
    new.find_free(2)
    new.sell("1A", "customer 1", 2)
    old.sell("1A", "customer 2", 1)
    records = read_records(path)
    assert [sale.customer for sale in records.sales] == ["customer 1", "customer 2"]
    assert records.seats["1A"] == "customer 2"


def test_seats_have_rows_of_four(tmp_path: Path) -> None:
    create(tmp_path / "seats.db", 6)
    assert [*read_records(tmp_path / "seats.db").seats] == ["1A", "1B", "1C", "1D", "2A", "2B"]


def test_the_verdict_of_a_safe_run() -> None:
    verdict = judged([EARLY, TAKEN], [LATE], LATE)
    assert verdict.missing == []
    assert verdict.lines[0] == (
        "2 seats booked by 2 workers, 1 late write refused, no seat sold twice."
    )


def test_the_verdict_of_an_unsafe_run() -> None:
    verdict = judged([EARLY, TAKEN, LATE], [], LATE, unsafe=True)
    assert verdict.missing == []
    text = "\n".join(verdict.lines)
    assert "1 seat SOLD TWICE" in text
    assert (
        "1B was sold to customer 1 by worker 2 (fence 12) and to customer 2 by worker 1 (fence 11)"
        in text
    )
    assert "the seat map now says customer 2" in text
    assert "what happens without the fence" in text


@pytest.mark.parametrize(
    ("sales", "refusals", "late", "loss_known", "missing"),
    [
        ([EARLY, TAKEN], [], LATE, True, "was not refused"),
        ([EARLY, TAKEN], [EARLY], LATE, True, "was not refused"),
        ([EARLY, TAKEN, LATE], [LATE], LATE, True, "sold twice: 1B"),
        ([TAKEN, EARLY], [LATE], LATE, True, "lower fence"),
        ([TAKEN], [LATE], LATE, True, "1 of 2 seats"),
        ([EARLY, TAKEN], [LATE], LATE, False, "did not learn"),
        ([EARLY, TAKEN], [LATE], None, True, "no worker was frozen"),
    ],
)
def test_a_safe_run_that_shows_nothing_is_a_failure(
    sales: list[Sale], refusals: list[Sale], late: Sale | None, loss_known: bool, missing: str
) -> None:
    verdict = judged(sales, refusals, late, loss_known)
    assert missing in "\n".join(verdict.missing)
    assert verdict.facts["shown"] is False


@pytest.mark.parametrize(
    ("sales", "late"),
    [
        ([EARLY, TAKEN], LATE),
        ([EARLY, LATE, TAKEN], LATE),  # in time, and so the other's mistake
        ([EARLY, TAKEN, LATE._replace(fence=13)], LATE._replace(fence=13)),
        ([TAKEN, EARLY, EARLY], LATE),
        ([EARLY, TAKEN, LATE], None),
    ],
)
def test_an_unsafe_run_without_the_double_sale_is_a_failure(
    sales: list[Sale], late: Sale | None
) -> None:
    assert judged(sales, [], late, unsafe=True).missing
