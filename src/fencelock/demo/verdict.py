"""Judge what really happened, by the store's own records and not by what the workers said.

Where the records do not show what the demo set out to show, the verdict says what is missing, and
the demo fails.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Sale(NamedTuple):
    """One sale, taken or refused."""

    seat: str
    customer: str
    worker: str
    fence: int


class Records(NamedTuple):
    """What the store holds when all is over, in the order in which it was written."""

    sales: Sequence[Sale]
    refusals: Sequence[Sale]
    seats: Mapping[str, str | None]
    """The customer on each seat, None where it is free."""


class Verdict(NamedTuple):
    """The summary of a run."""

    missing: Sequence[str]
    """What the demo should have shown and did not."""
    lines: Sequence[str]
    facts: Mapping[str, object]
    """The summary in JSON values, for programs."""


def read_records(path: Path) -> Records:
    """Read the store's records of a run."""
    every = "SELECT seat, customer, worker, fence FROM {} ORDER BY id"
    with closing(sqlite3.connect(path)) as db:
        sales, refusals = (
            [Sale(*row) for row in db.execute(every.format(table))]
            for table in ("sales", "refusals")
        )
        return Records(sales, refusals, dict(db.execute("SELECT seat, customer FROM seats")))


def judge(
    seats: int, unsafe: bool, records: Records, late: Sale | None, loss_known: bool
) -> Verdict:
    """Judge the records.  ``late`` is what the frozen worker was about to write."""
    by_seat: dict[str, list[Sale]] = {}
    for sale in records.sales:
        by_seat.setdefault(sale.seat, []).append(sale)
    twice = {seat: sales for seat, sales in by_seat.items() if len(sales) > 1}
    missing = ["no worker was frozen"]
    if late is not None:
        shown = {
            f"{len(by_seat)} of {seats} seats were booked": len(by_seat) == seats,
            "the frozen worker did not learn that its lease was lost": loss_known,
            **(_shown_unsafe(twice, late) if unsafe else _shown_safe(records, twice, late)),
        }
        missing = [text for text, is_shown in shown.items() if not is_shown]
    facts = {
        "shown": not missing,
        "missing": missing,
        "unsafe": unsafe,
        "seats_booked": len(by_seat),
        "tickets": len(records.sales),
        "workers": len({sale.worker for sale in records.sales}),
        "refused": [sale._asdict() for sale in records.refusals],
        "sold_twice": {seat: [sale._asdict() for sale in sales] for seat, sales in twice.items()},
        "late": None if late is None else late._asdict(),
    }
    return Verdict(missing, _lines(unsafe, len(by_seat), records, twice), facts)


def _shown_safe(records: Records, twice: Mapping[str, object], late: Sale) -> dict[str, bool]:
    fences = [sale.fence for sale in records.sales]
    return {
        f"the late write of {late.worker} was not refused": late in records.refusals,
        f"sold twice: {', '.join(twice)}": not twice,
        "a sale was taken with a lower fence than the one before": fences == sorted(fences),
    }


def _shown_unsafe(twice: Mapping[str, Sequence[Sale]], late: Sale) -> dict[str, bool]:
    first, *later = twice.get(late.seat) or [late]
    again = late in later and first.fence > late.fence
    return {f"{late.seat} was not sold again by {late.worker} with its older fence": again}


def _lines(
    unsafe: bool, booked: int, records: Records, twice: Mapping[str, Sequence[Sale]]
) -> list[str]:
    workers = _count(len({sale.worker for sale in records.sales}), "worker")
    refused = _count(len(records.refusals), "late write")
    doubles = f"{_count(len(twice), 'seat')} SOLD TWICE" if twice else "no seat sold twice"
    lines = [f"{_count(booked, 'seat')} booked by {workers}, {refused} refused, {doubles}."]
    for seat, sales in twice.items():
        buyers = " and ".join(f"to {s.customer} by {s.worker} (fence {s.fence})" for s in sales)
        lines.append(f"Seat {seat} was sold {buyers}.")
        if sales[-1].fence < sales[0].fence:
            lines.append(
                "The last write came late, from a holder whose lease was over, and the seat map "
                f"now says {records.seats[seat]}."
            )
    if unsafe:
        return [*lines, "This is what happens without the fence."]
    return [*lines, "The same without the fence: --unsafe"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
