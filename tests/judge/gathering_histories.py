"""Histories of several locks at once, barriers and latches: those that a checker must reject, each
with its name, and others that look alike."""

from __future__ import annotations

from itertools import count

from fencelock.judge import Event
from tests.judge.telling import Told, note

_ops = count(100_000)


def _told(
    verb: str,
    client: str,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    *,
    name: str = "seat",
    fence: int = 0,
    group: int | None = None,
    left: int | None = None,
    limit: int = 0,
    detail: str = "",
) -> Told:
    op = next(_ops)
    events = [Event(begin, client, "invoke", verb, op, name, value=group, limit=limit)]
    if end is not None:
        events.append(Event(end, client, outcome, verb, op, name, fence, left, detail))
    return events


def _both(client: str, begin: float, end: float, *outcomes: str, group: int, fence: int) -> Told:
    names = ("seat", "table")
    found: Told = []
    for name, outcome in zip(names, outcomes, strict=True):
        known = fence if outcome == "ok" else 0
        found += _told("acquire", client, begin, end, outcome, name=name, fence=known, group=group)
    return found


def _left(client: str, at: float, fence: int) -> Told:
    return [
        event
        for name in ("seat", "table")
        for event in _told("release", client, at, at + 0.1, name=name, fence=fence)
    ]


def _meet(client: str, begin: float, end: float, outcome: str = "ok", fence: int = 0) -> Told:
    return _told("meet", client, begin, end, outcome, fence=fence, limit=2)


def _count(client: str, begin: float, end: float, left: int, by: str = "") -> Told:
    return _told("count", client, begin, end, left=left, limit=2, detail=by)


def _await(client: str, begin: float, end: float, outcome: str = "ok", detail: str = "") -> Told:
    return _told("await", client, begin, end, outcome, limit=2, detail=detail)


ANN_LEAVES = _left("ann", 2.0, 5)
MET = [_meet("ann", 1.0, 1.6, fence=5), _meet("bob", 1.5, 1.6, fence=6)]

BAD: dict[str, tuple[str, list[Told]]] = {
    "one of two is left out": (
        "all_or_none",
        [_both("ann", 1.0, 1.1, "ok", "fail", group=1, fence=5)],
    ),
    "one was lost before the other came": (
        "all_or_none",
        [
            [Event(1.5, "ann", "note", "lost", 0, "seat", 5)],
            _both("ann", 1.0, 2.0, "ok", "ok", group=1, fence=5),
        ],
    ),
    "two wait for each other": (
        "no_deadlock",
        [
            _both("ann", 1.0, 30.0, "fail", "fail", group=1, fence=0),
            _both("bob", 1.0, 40.0, "fail", "fail", group=2, fence=0),
        ],
    ),
    "one passes a barrier for two alone": ("all_have_come", [_meet("ann", 1.0, 1.1, fence=5)]),
    "three have passed a barrier for two": (
        "all_have_come",
        [*MET, _meet("cyd", 1.55, 1.7, fence=7)],
    ),
    "one is left at a barrier": (
        "none_left_at_a_barrier",
        [_meet("ann", 1.0, 9.0, "fail", fence=5), _meet("bob", 1.5, 1.6, fence=6)],
    ),
    "a latch opens a count early": (
        "counts_are_kept",
        [_count("ann", 1.0, 1.1, 1), _await("bob", 1.0, 1.2)],
    ),
    "one counts twice": (
        "counts_are_kept",
        [_count("ann", 1.0, 1.1, 1, "x"), _count("bob", 1.2, 1.3, 0, "x")],
    ),
    "a count is forgotten": (
        "counts_are_kept",
        [_count("ann", 1.0, 1.1, 1), _count("bob", 1.2, 1.3, 1)],
    ),
    "one is left at an open latch": (
        "none_left_at_a_latch",
        [
            _count("ann", 1.0, 1.1, 1),
            _count("bob", 1.0, 1.2, 0),
            _await("cyd", 1.0, 9.0, "fail", "not in time"),
        ],
    ),
}

GOOD: dict[str, list[Told]] = {
    "both locks are got": [_both("ann", 1.0, 1.1, "ok", "ok", group=1, fence=5), ANN_LEAVES],
    "neither lock is got": [
        _both("ann", 1.0, 1.1, "ok", "ok", group=1, fence=5),
        _both("bob", 1.2, 1.3, "fail", "fail", group=2, fence=0),
        ANN_LEAVES,
    ],
    "two meet": MET,
    "one leaves a barrier to which nobody comes": [_meet("ann", 1.0, 9.0, "fail", fence=5)],
    "a party that was killed counts": [
        _told("meet", "ann", 1.0, None, limit=2),
        note("ann", "crash", 1.2),
        _meet("bob", 1.5, 1.6, fence=6),
    ],
    "a latch opens": [
        _count("ann", 1.0, 1.1, 1),
        _count("bob", 1.2, 1.3, 0),
        _await("cyd", 1.0, 1.4),
        _await("dan", 5.0, 5.1),
    ],
    "a latch stays shut": [
        _count("ann", 1.0, 1.1, 1),
        _await("cyd", 1.0, 9.0, "fail", "not in time"),
    ],
}
