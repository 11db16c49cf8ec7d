"""Histories told in a few words: `acquire("ann", 1, 1.0, 1.1)` is one operation with both ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from fencelock.judge import Event, History

_ops = count(1)
Told = list[Event]


def operation(
    verb: str,
    client: str,
    fence: int,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    value: int | None = None,
    detail: str = "",
    deadline: float = 0.0,
) -> Told:
    """One operation; without an end it is still open."""
    op, name = next(_ops), "register" if verb in ("enter", "read", "write") else "seat"
    asked = fence if verb != "acquire" else 0
    events = [Event(begin, client, "invoke", verb, op, name, asked, deadline=deadline)]
    if verb == "write":
        events = [events[0]._replace(value=value)]
    if end is not None:
        known = fence if outcome == "ok" or verb != "acquire" else 0
        events.append(Event(end, client, outcome, verb, op, name, known, value, detail))
    return events


def acquire(
    client: str,
    fence: int,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    deadline: float = 0.0,
) -> Told:
    return operation("acquire", client, fence, begin, end, outcome, deadline=deadline)


def release(
    client: str,
    fence: int,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    detail: str = "",
) -> Told:
    return operation("release", client, fence, begin, end, outcome, detail=detail)


def renew(client: str, fence: int, begin: float, end: float, outcome: str = "ok") -> Told:
    return operation("renew", client, fence, begin, end, outcome)


def read(client: str, fence: int, begin: float, end: float, value: int) -> Told:
    return operation("read", client, fence, begin, end, "ok", value)


def write(
    client: str, fence: int, begin: float, end: float, value: int, outcome: str = "ok"
) -> Told:
    return operation("write", client, fence, begin, end, outcome, value)


def note(client: str, verb: str, at: float, fence: int = 0, about: Told | None = None) -> Told:
    """What befell somebody; it may be about an operation."""
    name = "" if verb in ("pause", "resume", "crash", "restart", "partition", "heal") else "seat"
    return [Event(at, client, "note", verb, about[0].op if about else 0, name, fence)]


def history(*told: Iterable[Event]) -> History:
    """Put what was told into the order of time."""
    return History(sorted((event for events in told for event in events), key=lambda e: e.at))
