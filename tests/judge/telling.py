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


def lasting(until: float, told: Told) -> Told:
    """The same acquire, of a lease that nobody renews."""
    return [told[0], *(event._replace(until=until) for event in told[1:])]


READERS = 1_000_000


def shared(told: Told, role: str, units: int = 0, limit: int = 0, slot: int | None = None) -> Told:
    """The same operation on a name that several may hold."""
    begun = told[0]._replace(role=role, units=units, limit=limit)
    return [begun, *(event._replace(slot=slot) for event in told[1:])]


def slot(
    client: str,
    fence: int,
    number: int | None,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    left: float | None = None,
    limit: int = 2,
) -> Told:
    """Get a slot of a semaphore, and give it back when told to."""
    got = acquire(client, fence, begin, end, outcome)
    back = [] if left is None else release(client, fence, left, left + 0.1)
    gave = [event._replace(role="semaphore") for event in back]
    return [*shared(got, "semaphore", 1, limit, number), *gave]


def rw(
    role: str,
    client: str,
    fence: int,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    left: float | None = None,
) -> Told:
    """Get a read/write lock, and give it back when told to."""
    units = 1 if role == "read" else READERS
    got = acquire(client, fence, begin, end, outcome)
    back = [] if left is None else release(client, fence, left, left + 0.1)
    return [
        *shared(got, role, units, READERS),
        *(event._replace(role=role) for event in back),
    ]


def downgrade(client: str, fence: int, begin: float, end: float) -> Told:
    return shared(operation("downgrade", client, fence, begin, end), "write")


def term(client: str, epoch: int, begin: float, end: float, left: float | None = None) -> Told:
    """Lead, and resign when told to."""
    back = [] if left is None else release(client, epoch, left, left + 0.1)
    return [
        *shared(acquire(client, epoch, begin, end), "leader"),
        *(event._replace(role="leader") for event in back),
    ]


def look(client: str, epoch: int, begin: float, end: float) -> Told:
    """See who leads."""
    asked, seen = operation("look", client, epoch, begin, end)
    return [asked._replace(fence=0), seen]


def run(
    client: str,
    window: int | None,
    begin: float,
    end: float | None,
    outcome: str = "ok",
    why: str = "",
) -> Told:
    """Do the work of a window, or of a key, which has none; or skip it."""
    told = operation("run", client, 0, begin, end, outcome, window, why)
    return [told[0]._replace(value=window), *told[1:]]


def note(client: str, verb: str, at: float, fence: int = 0, about: Told | None = None) -> Told:
    """What befell somebody; it may be about an operation."""
    name = "" if verb in ("pause", "resume", "crash", "restart", "partition", "heal") else "seat"
    return [Event(at, client, "note", verb, about[0].op if about else 0, name, fence)]


def history(*told: Iterable[Event]) -> History:
    """Put what was told into the order of time."""
    return History(sorted((event for events in told for event in events), key=lambda e: e.at))
