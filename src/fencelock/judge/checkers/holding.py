"""Checkers of exclusion, of growing fences, and of holders that learn of a loss in time."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..history import History, Violation
from ..promises import Promises
from .tenures import Tenure, Troubles, locks


def one_holder(history: History, promises: Promises) -> list[Violation]:
    """Check that a tenure has ended for its holder before another is granted.

    A paused holder acts on nothing, so its tenure may be over without its knowledge; from the
    moment it runs again it has the slack to notice. A tenure that the engine took away on purpose,
    with a note, is over; ``told_in_time`` checks whether its holder was told.
    """
    return _overlaps(history, promises, "lock", "one_holder")


def one_per_slot(history: History, promises: Promises) -> list[Violation]:
    """Check that no slot of a semaphore has two holders, by the rules for a mutex."""
    return _overlaps(history, promises, "semaphore", "one_per_slot")


def no_reader_beside_writer(history: History, promises: Promises) -> list[Violation]:
    """Check that nobody reads or writes beside a writer, by the rules for a mutex.

    A writer that downgrades counts as a reader from before its request on: readers may come at
    once, and no writer may until its tenure has ended.
    """
    return _overlaps(history, promises, "rwlock", "no_reader_beside_writer")


def within_limit(history: History, promises: Promises) -> list[Violation]:
    """Check that holders that surely act never have more units of a semaphore than its limit."""
    found: list[Violation] = []
    troubles = Troubles(history, promises)
    for lock in locks(history, "semaphore"):
        for index, one in enumerate(lock.tenures):  # in the order of their grants
            moment = one.granted_at
            acting = [
                each
                for each in lock.tenures[: index + 1]
                if each.believed_until > moment and _acts(each, moment, troubles, promises)
            ]
            units = sum(each.units for each in acting)
            if units > one.limit:
                message = (
                    f"{one.client} was granted {one.name!r} (fence {one.fence}) at {moment:.6f} s, "
                    f"when {units} units of {one.limit} were held by "
                    f"{', '.join(each.client for each in acting)}"
                )
                events = tuple(event for each in acting for event in each.events)
                found.append(Violation("within_limit", message, events))
    return found


def _overlaps(history: History, promises: Promises, kind: str, checker: str) -> list[Violation]:
    found: list[Violation] = []
    troubles = Troubles(history, promises)
    for lock in locks(history, kind):
        for index, one in enumerate(lock.tenures):  # in the order of their grants
            for other in lock.tenures[index + 1 :]:
                moment = other.granted_at
                if moment >= one.believed_until:
                    break
                if one.excludes(other) and all(
                    _acts(each, moment, troubles, promises) for each in (one, other)
                ):
                    found.append(_two_holders(checker, one, other, moment))
    return found


def _acts(tenure: Tenure, moment: float, troubles: Troubles, promises: Promises) -> bool:
    """Return whether the holder surely acts on a tenure at a moment, and beyond the slack."""
    awake = troubles.running_since(tenure.client, moment)
    until = min(tenure.believed_until, tenure.lost_at)
    return tenure.granted_at <= moment and until > awake + promises.slack


def _two_holders(checker: str, one: Tenure, other: Tenure, moment: float) -> Violation:
    slot = "" if one.slot is None else f"slot {one.slot} of "
    write = " to write" if other.role == "write" else ""
    held = f" to {one.role}" if one.role in ("read", "write") else ""
    message = (
        f"{other.client} was granted {slot}{other.name!r}{write} (fence {other.fence}) while "
        f"{one.client} (fence {one.fence}) held it{held}: both at {moment:.6f} s"
    )
    return Violation(checker, message, one.events + other.events, moment)


def told_in_time(history: History, promises: Promises) -> list[Violation]:
    """Check that a running holder learns of its loss within the bound after the engine ended its
    tenure or granted another."""
    bound = promises.told_within
    if bound is None:
        return []
    found: list[Violation] = []
    troubles = Troubles(history, promises)
    for lock in locks(history):
        tenures = sorted(lock.tenures, key=lambda one: (one.fence, one.granted_at))
        for index, one in enumerate(tenures):
            moved_on = [later.granted_at for later in tenures[index + 1 :] if one.excludes(later)]
            over = max(min([one.lost_at, *moved_on]), one.granted_at)
            within = bound + promises.slack + promises.told_ttls * one.ttl
            latest = troubles.having_run(one.client, over, within)
            if latest <= history.ends_at and one.believed_until > latest:
                found.append(
                    Violation(
                        "told_in_time",
                        f"{one.client} lost {one.name!r} (fence {one.fence}) at {over:.6f} s and "
                        f"was not told by {latest:.6f} s",
                        one.events,
                        latest,
                    )
                )
    return found


def fences_grow(history: History, promises: Promises) -> list[Violation]:
    """Check that no fence is given twice, and that a later tenure has a higher one.

    Later means: requested after the other was granted. Where exclusion is promised it also means:
    granted later to a client that was not disturbed, since a waiter held nothing before; unless
    the engine took the lock away again before that client knew of it. For tenures that may share a
    read/write lock only the first meaning applies.
    """
    troubles = Troubles(history, promises)
    return [
        violation
        for lock in locks(history, "lock", "rwlock")
        for violation in grow("fences_grow", lock.tenures, promises, troubles)
    ]


def slot_fences_grow(history: History, promises: Promises) -> list[Violation]:
    """Check that the fences of each slot of a semaphore grow as those of a mutex do."""
    troubles = Troubles(history, promises)
    found: list[Violation] = []
    for lock in locks(history, "semaphore"):
        slots: dict[int | None, list[Tenure]] = {}
        for one in lock.tenures:
            slots.setdefault(one.slot, []).append(one)
        for tenures in slots.values():
            found += grow("slot_fences_grow", tenures, promises, troubles)
    return found


def grow(
    checker: str, granted: list[Tenure], promises: Promises, troubles: Troubles
) -> list[Violation]:
    """Find the pairs of tenures, given in the order of their grants, whose fences do not grow."""
    pairs = [*_twice(granted), *_backward(granted, promises, troubles)]
    return [_not_higher(checker, one, later) for one, later in pairs]


def _twice(granted: list[Tenure]) -> Iterable[tuple[Tenure, Tenure]]:
    first: dict[int, Tenure] = {}
    for one in granted:
        other = first.setdefault(one.fence, one)
        if other is not one or not one.fence:
            yield other, one


def _backward(
    granted: list[Tenure], promises: Promises, troubles: Troubles
) -> list[tuple[Tenure, Tenure]]:
    found: list[tuple[Tenure, Tenure]] = []
    asked = sorted(granted, key=lambda one: one.asked_at)
    highest, index = None, 0
    for one in asked:
        while index < len(granted) and granted[index].granted_at < one.asked_at:
            if highest is None or granted[index].fence > highest.fence:
                highest = granted[index]
            index += 1
        if highest is not None and one.fence < highest.fence:
            found.append((highest, one))
    if promises.exclusive and not found:
        for one, later in pairwise(granted):
            is_later = one.granted_at + promises.slack < later.granted_at and one.excludes(later)
            calm = later.lost_at > later.granted_at and not troubles.between(
                later.client, later.asked_at, later.granted_at
            )
            if is_later and calm and later.fence < one.fence:
                found.append((one, later))
    return found


def _not_higher(checker: str, one: Tenure, later: Tenure) -> Violation:
    slot = "" if one.slot is None else f"slot {one.slot} of "
    what = f"fence {later.fence} of {slot}{one.name!r} was given"
    if not later.fence:
        message = f"{what}: none"
    elif one.fence == later.fence:
        message = f"{what} to {one.client} and to {later.client}"
    else:
        message = f"{what} to {later.client} after {one.fence} was given to {one.client}"
    return Violation(checker, message, one.events + later.events)
