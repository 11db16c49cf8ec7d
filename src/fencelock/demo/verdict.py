"""The verdict: what really happened, by the store's own records and not by what the workers said.

Pure functions over values.  Where the records do not show what the demo set out to show, the
verdict says what is missing, and the demo fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .store import Records, Sale
from .story import Plan


class Verdict(NamedTuple):
    """The summary of a run."""

    missing: Sequence[str]
    """What the demo should have shown and did not."""
    lines: Sequence[str]
    facts: Mapping[str, object]
    """The same for programs."""


def judge(plan: Plan, records: Records, late: Sale | None, loss_known: bool) -> Verdict:
    """Hold the records against the plan.  ``late`` is what the frozen worker was about to write."""
    twice = sold_twice(records.sales)
    if late is None:
        missing = ["no worker was frozen"]
    else:
        find = _missing_unsafe if plan.unsafe else _missing_safe
        missing = [*_missing(plan, records, loss_known), *find(records, twice, late)]
    facts = {
        "shown": not missing,
        "missing": missing,
        "unsafe": plan.unsafe,
        "seats_booked": _booked(records),
        "tickets": len(records.sales),
        "workers": len({sale.worker for sale in records.sales}),
        "refused": [sale._asdict() for sale in records.refusals],
        "sold_twice": {seat: [sale._asdict() for sale in sales] for seat, sales in twice.items()},
        "late": None if late is None else late._asdict(),
    }
    return Verdict(missing, _lines(plan, records, twice), facts)


def sold_twice(sales: Sequence[Sale]) -> dict[str, list[Sale]]:
    """The seats that were sold more than once, each with its sales in order."""
    by_seat: dict[str, list[Sale]] = {}
    for sale in sales:
        by_seat.setdefault(sale.seat, []).append(sale)
    return {seat: sales for seat, sales in by_seat.items() if len(sales) > 1}


def _missing(plan: Plan, records: Records, loss_known: bool) -> list[str]:
    missing: list[str] = []
    if _booked(records) != plan.seats:
        missing.append(f"{_booked(records)} of {plan.seats} seats were booked")
    if not loss_known:
        missing.append("the frozen worker did not learn that its lease was lost")
    return missing


def _missing_safe(records: Records, twice: Mapping[str, Sequence[Sale]], late: Sale) -> list[str]:
    missing: list[str] = []
    if late not in records.refusals:
        missing.append(f"the late write of {late.worker} was not refused")
    if twice:
        missing.append(f"sold twice: {', '.join(twice)}")
    fences = [sale.fence for sale in records.sales]
    if fences != sorted(fences):
        missing.append("a sale was taken with a lower fence than the one before")
    return missing


def _missing_unsafe(records: Records, twice: Mapping[str, Sequence[Sale]], late: Sale) -> list[str]:
    first, *later = twice.get(late.seat) or [late]
    if late not in later or first.fence <= late.fence:
        return [f"{late.seat} was not sold again by {late.worker} with its older fence"]
    return []


def _lines(plan: Plan, records: Records, twice: Mapping[str, Sequence[Sale]]) -> list[str]:
    booked = _count(_booked(records), "seat")
    workers = _count(len({sale.worker for sale in records.sales}), "worker")
    refused = _count(len(records.refusals), "late write")
    doubles = f"{_count(len(twice), 'seat')} SOLD TWICE" if twice else "no seat sold twice"
    lines = [f"{booked} booked by {workers}, {refused} refused, {doubles}."]
    for seat, sales in twice.items():
        buyers = " and ".join(f"to {s.customer} by {s.worker} (fence {s.fence})" for s in sales)
        lines.append(f"Seat {seat} was sold {buyers}.")
        if sales[-1].fence < sales[0].fence:
            lines.append(
                "The last write came late, from a holder whose lease was over, and the seat map "
                f"now says {records.seats[seat]}."
            )
    if plan.unsafe:
        return [*lines, "This is what happens without the fence."]
    return [*lines, "The same without the fence: --unsafe"]


def _booked(records: Records) -> int:
    return len({sale.seat for sale in records.sales})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
