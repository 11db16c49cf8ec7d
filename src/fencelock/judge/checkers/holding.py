"""Check that there are never two holders, that fences grow, and that a loss is told in time."""

from __future__ import annotations

from itertools import pairwise

from ..history import History, Violation
from ..promises import Promises
from .tenures import Tenure, Tenures, Troubles, locks


def one_holder(history: History, promises: Promises) -> list[Violation]:
    """No two holders: a tenure has ended for its holder before another is granted.

    A holder that is paused acts on nothing, so its tenure may be over without its knowing; from
    the moment it runs again it has the slack to notice. A tenure that the engine took away on
    purpose, with a note, is over; whether its holder was told is asked elsewhere.
    """
    found: list[Violation] = []
    troubles = Troubles(history, promises)
    for lock in locks(history):
        for index, one in enumerate(lock.tenures):  # in the order of their grants
            for other in lock.tenures[index + 1 :]:
                moment = other.granted_at
                if moment >= one.believed_until:
                    break
                if all(_acts(each, moment, troubles, promises) for each in (one, other)):
                    found.append(_two_holders(one, other, moment))
    return found


def _acts(tenure: Tenure, moment: float, troubles: Troubles, promises: Promises) -> bool:
    """Whether its holder surely acts on it at a moment and for a while after."""
    awake = troubles.running_since(tenure.client, moment)
    until = min(tenure.believed_until, tenure.lost_at)
    return tenure.granted_at <= moment and until > awake + promises.slack


def _two_holders(one: Tenure, other: Tenure, moment: float) -> Violation:
    message = (
        f"{other.client} was granted {other.name!r} (fence {other.fence}) while {one.client} "
        f"(fence {one.fence}) held it: both at {moment:.6f} s"
    )
    return Violation("one_holder", message, one.events + other.events)


def told_in_time(history: History, promises: Promises) -> list[Violation]:
    """A holder that runs learns of its loss within its bound after the engine has moved on."""
    bound = promises.told_within
    if bound is None:
        return []
    found: list[Violation] = []
    troubles = Troubles(history, promises)
    for lock in locks(history):
        tenures = sorted(lock.tenures, key=lambda one: (one.fence, one.granted_at))
        for index, one in enumerate(tenures):
            over = min((later.granted_at for later in tenures[index + 1 :]), default=one.lost_at)
            over = max(min(over, one.lost_at), one.granted_at)
            within = bound + promises.slack + promises.told_ttls * one.ttl
            latest = troubles.having_run(one.client, over, within)
            if latest <= history.ends_at and one.believed_until > latest:
                found.append(
                    Violation(
                        "told_in_time",
                        f"{one.client} lost {one.name!r} (fence {one.fence}) at {over:.6f} s and "
                        f"was not told by {latest:.6f} s",
                        one.events,
                    )
                )
    return found


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
