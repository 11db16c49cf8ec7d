"""The verdict: what really happened, read from the store's own records and not from what the workers said.

Pure functions over values, so that the demo cannot talk itself into a success: when the records do not show what the
demo set out to show, it says so and fails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .store import Records, Sale
from .story import Plan
from .words import Message


class Verdict(NamedTuple):
    """The summary of a run."""

    shown: bool
    """The demo showed what it set out to show."""
    lines: Sequence[str]
    facts: Mapping[str, object]
    """The same for programs."""


def judge(plan: Plan, records: Records, late: Message | None, loss_known: bool) -> Verdict:
    """Hold the records against the plan.  ``late`` is what the frozen worker was about to do."""
    twice = sold_twice(records.sales)
    missing = _missing(plan, records, late, loss_known, twice)
    lines = _unsafe_lines(records, twice) if plan.unsafe else _safe_lines(records, twice)
    facts = {
        "shown": not missing,
        "missing": missing,
        "unsafe": plan.unsafe,
        "seats_booked": len({sale.seat for sale in records.sales}),
        "tickets_sold": len(records.sales),
        "workers": len({sale.worker for sale in records.sales}),
        "refused": [sale._asdict() for sale in records.refusals],
        "sold_twice": {seat: [sale._asdict() for sale in sales] for seat, sales in twice.items()},
        "late_write": None if late is None else {"seat": late.seat, "fence": late.fence},
    }
    if missing:
        lines = [*lines, "This is not what the demo set out to show:", *(f"  {why}" for why in missing)]
    return Verdict(not missing, lines, facts)


def sold_twice(sales: Sequence[Sale]) -> dict[str, list[Sale]]:
    """The seats that were sold more than once, with all their sales in order."""
    by_seat: defaultdict[str, list[Sale]] = defaultdict(list)
    for sale in sales:
        by_seat[sale.seat].append(sale)
    return {seat: sales for seat, sales in by_seat.items() if len(sales) > 1}


def _missing(
    plan: Plan,
    records: Records,
    late: Message | None,
    loss_known: bool,
    twice: Mapping[str, Sequence[Sale]],
) -> list[str]:
    """What the demo should have shown and the records do not."""
    if late is None:
        return ["no worker was frozen"]
    missing: list[str] = []
    booked = len({sale.seat for sale in records.sales})
    if booked != plan.seats:
        missing.append(f"{booked} of {plan.seats} seats are booked")
    if not loss_known:
        missing.append("the frozen worker did not learn that its lease was lost")
    if plan.unsafe:
        fences = [sale.fence for sale in twice.get(late.seat, ())]
        if late.fence not in fences[1:] or max(fences) == late.fence:
            missing.append(f"seat {late.seat} was not sold again by the frozen worker")
        return missing
    if twice:
        missing.append(f"sold twice: {', '.join(twice)}")
    if (late.seat, late.fence) not in [(sale.seat, sale.fence) for sale in records.refusals]:
        missing.append(f"the late write of seat {late.seat} was not refused")
    fences = [sale.fence for sale in records.sales]
    if fences != sorted(fences):
        missing.append("a sale carries a lower fence than one before it")
    return missing


def _safe_lines(records: Records, twice: Mapping[str, Sequence[Sale]]) -> list[str]:
    booked = _count(len({sale.seat for sale in records.sales}), "seat")
    workers = _count(len({sale.worker for sale in records.sales}), "worker")
    refused = _count(len(records.refusals), "late write")
    doubles = f"{_count(len(twice), 'seat')} sold twice" if twice else "no seat sold twice"
    return [
        f"{booked} booked by {workers}, {refused} refused, {doubles}.",
        "(Counted in the store's own records.  See what the fence is good for: --unsafe)",
    ]


def _unsafe_lines(records: Records, twice: Mapping[str, Sequence[Sale]]) -> list[str]:
    booked = _count(len({sale.seat for sale in records.sales}), "seat")
    lines = [f"{booked}, {_count(len(records.sales), 'ticket')}, nothing refused."]
    for seat, sales in twice.items():
        story = ", then ".join(f"to {s.customer} by {s.worker} (fence {s.fence})" for s in sales)
        lines.append(f"Seat {seat} was SOLD TWICE: {story}.")
        if sales[-1].fence < max(sale.fence for sale in sales):
            lines.append(
                f"The last write came late, with the older fence, and the seat map now says {sales[-1].customer}."
            )
    lines.append("This is what happens without the fence.  (Read from the store's own records.)")
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
