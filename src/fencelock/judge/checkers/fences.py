"""Check that fences strictly grow, in the order in which the lock was held."""

from __future__ import annotations

from itertools import pairwise

from ..history import History, Violation
from ..promises import Promises
from .tenures import Tenure, Tenures, Troubles, locks


def fences_grow(history: History, promises: Promises) -> list[Violation]:
    """No fence is given twice, and a later tenure has a higher one.

    Later means: asked for after the other was granted. Where exclusion is promised it also means:
    granted later to somebody who was not paused, since whoever waited held nothing before; unless
    the engine took the lock away again before that one knew of it.
    """
    troubles = Troubles(history, promises)
    return [
        violation
        for lock in locks(history)
        for violation in (*_twice(lock), *_backward(lock, promises, troubles))
    ]


def _twice(lock: Tenures) -> list[Violation]:
    first: dict[int, Tenure] = {}
    found: list[Violation] = []
    for one in lock.tenures:
        other = first.setdefault(one.fence, one)
        if other is not one or not one.fence:
            what = f"fence {one.fence} of {one.name!r} was given"
            message = (
                f"{what} to {other.client} and to {one.client}" if one.fence else f"{what}: none"
            )
            found.append(Violation("fences_grow", message, one.events + other.events))
    return found


def _backward(lock: Tenures, promises: Promises, troubles: Troubles) -> list[Violation]:
    found: list[Violation] = []
    granted = lock.tenures  # in the order of their grants
    asked = sorted(granted, key=lambda one: one.asked_at)
    highest, index = None, 0
    for one in asked:
        while index < len(granted) and granted[index].granted_at < one.asked_at:
            if highest is None or granted[index].fence > highest.fence:
                highest = granted[index]
            index += 1
        if highest is not None and one.fence < highest.fence:
            found.append(_went_back(highest, one))
    if promises.exclusive and not found:
        for one, later in pairwise(granted):
            is_later = one.granted_at + promises.slack < later.granted_at
            calm = later.lost_at > later.granted_at and not troubles.between(
                later.client, later.asked_at, later.granted_at
            )
            if is_later and calm and later.fence < one.fence:
                found.append(_went_back(one, later))
    return found


def _went_back(one: Tenure, later: Tenure) -> Violation:
    message = (
        f"fence {later.fence} of {one.name!r} was given to {later.client} after {one.fence} "
        f"was given to {one.client}"
    )
    return Violation("fences_grow", message, one.events + later.events)
