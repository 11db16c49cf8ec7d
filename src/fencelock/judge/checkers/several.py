"""Checkers of what a joint acquire of several locks promises beyond each lock alone."""

from __future__ import annotations

from collections.abc import Iterator

from ..history import History, Operation, Violation
from ..promises import Promises
from .tenures import NEVER, Troubles, locks


def _groups(history: History) -> dict[int, list[Operation]]:
    """Group the acquires that belong to one call, by the number that they share."""
    found: dict[int, list[Operation]] = {}
    for one in history.operations("acquire"):
        if one.value is not None:
            found.setdefault(one.value, []).append(one)
    return found


def all_or_none(history: History, promises: Promises) -> list[Violation]:
    """Check that a client that requests several locks has all of them when its call ends, or none.

    No client is told that it has all of them when it knew before that one of them was lost.
    """
    lost = {
        (event.client, event.name, event.fence): index
        for index, event in enumerate(history)
        if event.kind == "note" and event.verb == "lost"
    }
    found: list[Violation] = []
    for group in _groups(history).values():
        first, events = group[0], tuple(index for one in group for index in one.events)
        got = [one.name for one in group if one.outcome == "ok"]
        if got and len(got) < len(group):
            others = [one.name for one in group if one.outcome != "ok"]
            message = f"{first.client} got {got} and not {others} at {first.seen:.6f} s"
            found.append(Violation("all_or_none", message, events))
        for one in group:
            index = lost.get((one.client, one.name, one.fence), len(history))
            if one.outcome == "ok" and index < one.events[1]:
                message = (
                    f"{one.client} was given {[other.name for other in group]} at {one.end:.6f} s, "
                    f"and knew since {history[index].at:.6f} s that {one.name!r} was lost"
                )
                found.append(Violation("all_or_none", message, (*events, index)))
    return found


def no_deadlock(history: History, promises: Promises) -> list[Violation]:
    """Check that while a client waits for several locks, some client has all its locks or soon
    gets them.

    Of clients that wait for each other one must proceed, whatever each of them has already: within
    the bound for every lock that one of them waits for.
    """
    bound = promises.woken_within
    if bound is None:
        return []
    troubles, groups = Troubles(history, promises), _groups(history)
    held = [one for lock in locks(history, "lock") for one in lock.tenures]
    found: list[Violation] = []
    for number, group in groups.items():
        waiter = group[0]
        ended = min(waiter.seen, history.ends_at, troubles.crash_after(waiter.client, waiter.begin))
        others = [other[0] for key, other in groups.items() if key != number]
        rivals = _slow_rivals(others, waiter.begin, ended, troubles)
        names = max(map(len, groups.values()))
        allowed = names * bound + rivals * max(bound, promises.ttl) + promises.slack
        busy = [(one.granted_at, one.possible_until(promises)) for one in held]
        busy += [(other.seen, other.seen) for other in others]
        recovered = troubles.last_before(waiter.client, ended) + allowed
        for since, until in _quiet(busy, waiter.begin, ended):
            if until - max(since, recovered) > allowed:
                message = (
                    f"{waiter.client} waited for {[one.name for one in group]} from {since:.6f} s "
                    f"to {until:.6f} s while nobody got what it asked for"
                )
                events = tuple(index for one in group for index in one.events)
                found.append(Violation("no_deadlock", message, events))
    return found


def _slow_rivals(others: list[Operation], since: float, until: float, troubles: Troubles) -> int:
    """Count the attempts of others that were disturbed, and may keep their locks until expiry."""
    return sum(
        other.begin < until
        and (min(other.seen, until) > since or other.outcome != "ok")
        and troubles.between(other.client, other.begin, min(other.seen, until))
        for other in others
    )


def _quiet(
    busy: list[tuple[float, float]], since: float, until: float
) -> Iterator[tuple[float, float]]:
    """Iterate over the periods between two moments that no busy period covers or touches."""
    for begin, end in sorted((begin, end) for begin, end in busy if end > since and begin < until):
        if begin > since:
            yield since, begin
        since = max(since, end)
    if since < until < NEVER:
        yield since, until
