"""The windows into which a history is cut: around violations, and by the number of grants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from .reading import Reading

CLIENTS_MAX = 8
"""The most clients in one part, and the most holders in it: each has a color of its own."""
GRANTS_MAX = 24
"""The most grants in one part."""
BEFORE, AFTER = 10, 5
"""Grants that are shown before and after a violation."""
SECONDS_MAX = 20.0
AROUND_MAX = 16
"""The most parts that are about violations."""


class Window(NamedTuple):
    lock: str
    begin: float
    end: float
    about: str = ""
    """The question of the checker that found a violation here; empty for a regular stretch."""
    at: float = 0.0
    """Since when the promise is broken."""


def windows(reading: Reading) -> list[Window]:
    """Return the windows around violations, in order of time, and then those that cover it all."""
    regular: list[Window] = []
    for name in reading.names:
        regular += _stretches(reading, name)
    regular.sort(key=lambda window: window.begin)
    return [*_around(reading, regular), *regular] if len(regular) > 1 else regular


def _marks(reading: Reading, lock: str) -> list[tuple[float, str]]:
    """Return the times at which a history may be cut, each with its client: the grants of a lock,
    or all operations if there are none."""
    mine = [one for one in reading.operations if one.client in reading.clients]
    grants = sorted(
        (one.end, one.client)
        for one in mine
        if one.verb == "acquire" and one.outcome == "ok" and lock in ("", one.name)
    )
    return grants or sorted((one.begin, one.client) for one in mine) or [(0.0, "")]


def _stretches(reading: Reading, lock: str) -> list[Window]:
    marks = _marks(reading, lock)
    asked = [
        one.begin for one in reading.operations if one.verb == "acquire" and lock in ("", one.name)
    ]
    begin = max(0.0, min([*asked, marks[0][0]]) - 0.1)
    edges, count, holders = [begin], 0, set[str]()
    for mark, client in marks:
        is_full = count >= GRANTS_MAX or len(holders | {client}) > CLIENTS_MAX
        if count and (is_full or mark - edges[-1] > SECONDS_MAX):
            edges.append(mark)
            held = [span for span in reading.spans if span.kind == "holds"
                    and span.begin < mark < span.end and lock in ("", span.lock)]  # fmt: skip
            count, holders = 0, {span.lane for span in held}
        count += 1
        holders.add(client)
    edges.append(max(reading.end, begin + 0.1))
    return [Window(lock, one, other) for one, other in pairwise(edges)]


def _around(reading: Reading, regular: Sequence[Window]) -> list[Window]:
    found: list[Window] = []
    broken = [
        (reading.broken_at(one), ruling.question, one)
        for ruling in reading.report.rulings
        for one in ruling.violations
    ]
    for at, question, violation in sorted(broken, key=lambda one: one[0]):
        lock = reading.lock_of(violation)
        near = [one for one in found if one.lock == lock and one.begin < at < one.end]
        if near or len(found) >= AROUND_MAX:
            continue
        marks = [mark for mark, _ in _marks(reading, lock)]
        here = sum(mark <= at for mark in marks)
        begin = marks[max(0, here - BEFORE)]
        seen = [reading.report.history[index].at for index in violation.events]
        begin = max(min([begin, *seen]), at - SECONDS_MAX / 2) - 0.05
        end = marks[min(len(marks) - 1, here + AFTER)]
        end = min(max(end, at + 0.5), at + SECONDS_MAX / 2, max(reading.end, at + 0.1))
        found.append(Window(lock, max(0.0, begin), end, question, at))
    return found
