"""Checkers of waiters that are served, in order, and of locks that are left behind."""

from __future__ import annotations

from ..history import Event, History, Operation, Violation
from ..promises import Promises
from .tenures import NEVER, Tenures, Troubles, locks

REFUSALS = ("", "busy", "not in time")  # a failure with another text had another reason
_WHO = {
    "lock": "nobody held it",
    "semaphore": "units of it were free",
    "rwlock": "nobody held it who was in the way",
}


def nobody_sleeps(history: History, promises: Promises) -> list[Violation]:
    """Check that no running waiter waits beside a free lock for longer than the bound.

    A semaphore is free for a waiter that wants one of its units while others can have at most all
    but that one; a read/write lock is free for a reader while nobody writes or waits to write.

    Each other waiter that is paused or dead may be notified first, and costs a ttl. A waiter that
    was disturbed itself has as long again to recover, and is then a waiter like any other.
    """
    bound = promises.woken_within
    if bound is None:
        return []
    troubles = Troubles(history, promises)
    found: list[Violation] = []
    for lock in locks(history):
        for waiter in lock.acquires:
            if waiter.value is not None:
                continue  # it may wait for another lock: see no_deadlock
            since = _free_since(lock, waiter, troubles, promises)
            ended = min(waiter.end, history.ends_at)
            rivals = _slow_rivals(lock, waiter, since, troubles)
            allowed = bound + rivals * max(bound, promises.ttl) + promises.slack
            since = max(since, troubles.last_before(waiter.client, ended) + allowed)
            if ended - since > allowed:
                message = (
                    f"{waiter.client} waited for {lock.name!r} from {since:.6f} s to {ended:.6f} s "
                    f"while {_WHO[lock.kind]}"
                )
                found.append(Violation("nobody_sleeps", message, waiter.events))
    return found


def _free_since(lock: Tenures, waiter: Operation, troubles: Troubles, promises: Promises) -> float:
    """Return since when, until the waiter's end, the others surely left enough units for it.

    Other waiters that run count as holding nothing: they would have reported a grant.
    """
    taken: list[tuple[float, float, int]] = []
    for one in lock.tenures:
        if one.granted_at < waiter.end and one.events[0] != waiter.events[0]:
            taken.append((one.asked_at, one.possible_until(promises), one.units))
    for other in lock.acquires:
        if other.begin >= waiter.end or other is waiter:
            continue
        crash = troubles.crash_after(other.client, other.begin)
        if other.outcome == "unknown" or (other.outcome == "open" and crash < NEVER):
            taken.append((other.begin, _gone_at(other, troubles, promises), other.units))
        elif other.outcome != "ok" and other.units > waiter.units:
            taken.append((other.begin, other.seen, other.units))  # a writer queued ahead of it
    return max([waiter.begin, *_crowded(taken, waiter.limit - waiter.units)])


def _crowded(taken: list[tuple[float, float, int]], spare: int) -> list[float]:
    """Return the ends of all periods in which more units were taken than ``spare``."""
    if not spare:
        return [until for _, until, _ in taken]
    changes = sorted((at, is_end, one[2]) for one in taken for is_end, at in enumerate(one[:2]))
    ends, used = list[float](), 0
    for at, is_end, units in changes:
        if is_end and used > spare:
            ends.append(at)
        used += -units if is_end else units
    return ends


def _gone_at(acquire: Operation, troubles: Troubles, promises: Promises) -> float:
    """Return when nothing of an attempt that did not succeed can be left in the engine."""
    if acquire.outcome == "fail":
        return acquire.seen
    ended = min(acquire.seen, troubles.crash_after(acquire.client, acquire.begin))
    return ended + promises.ttl + promises.slack


def _slow_rivals(lock: Tenures, waiter: Operation, since: float, troubles: Troubles) -> int:
    """Count the attempts of others that were disturbed, and may be queued without answering.

    One that has failed counts as well: cut off, it could not withdraw its entry in the queue.
    """
    return sum(
        other is not waiter
        and other.begin < waiter.end
        and (other.end > since or other.outcome != "ok")
        and troubles.between(other.client, other.begin, min(other.seen, waiter.end))
        for other in lock.acquires
    )


def first_come_first_served(history: History, promises: Promises) -> list[Violation]:
    """Check that an undisturbed waiter is served before any client whose request came after it was
    queued.

    That holds for a name with several holders too, whether or not there was enough for the first:
    the later one waits, so that nobody starves. There two may be served at once and learn of it in
    any order, so what counts is when the engine kept it for them, where that is known.
    """
    troubles = Troubles(history, promises)
    recovery = promises.woken_within or promises.slack  # connections have to be made again
    notes = [event for event in history if event.kind == "note"]
    queued = [event for event in notes if event.verb == "queued"]
    kept: dict[int, float] = {}
    for event in notes:
        if event.verb == "kept" and event.op:
            kept.setdefault(event.op, event.at)
    lapsed = {event.client for event in notes if event.verb == "lost"} if promises.forsakes else ()
    found: list[Violation] = []
    for lock in locks(history):
        taken_early = {one.events[0] for one in lock.tenures if one.lost_at <= one.granted_at}
        waiters = [  # not those that gave up: they left the queue some time before they said so
            (one, at)
            for one in lock.acquires
            if one.outcome in ("ok", "open") and one.events[0] not in taken_early
            if one.client not in lapsed
            if (at := _queued_at(one, queued)) < NEVER
        ]
        shared = lock.kind != "lock"
        for other in lock.acquires:
            if other.outcome != "ok":
                continue
            for waiter, at in waiters:
                if at >= other.begin or not _overtook(other, waiter, kept, shared, promises):
                    continue
                if troubles.between(waiter.client, at, other.end, after=recovery):
                    continue
                message = (
                    f"{waiter.client} stood in the queue for {lock.name!r} since {at:.6f} s "
                    f"and was overtaken by {other.client}, which asked at {other.begin:.6f} s"
                )
                events = waiter.events + other.events
                found.append(Violation("first_come_first_served", message, events))
    return found


def _overtook(
    other: Operation, waiter: Operation, kept: dict[int, float], shared: bool, promises: Promises
) -> bool:
    if not shared:
        return waiter.end > other.end + promises.slack
    if other.op in kept:
        return kept.get(waiter.op, waiter.end) > kept[other.op] + promises.slack
    return waiter.end > other.end + promises.slack + (promises.woken_within or 0.0)


def _queued_at(acquire: Operation, queued: list[Event]) -> float:
    for note in queued:
        if note.op == acquire.op or (
            not note.op
            and note.client == acquire.client
            and note.name == acquire.name
            and acquire.begin <= note.at <= acquire.end
        ):
            return note.at
    return NEVER


def no_orphan(history: History, promises: Promises) -> list[Violation]:
    """Check that no client is refused a lock that nobody can have held for the bound."""
    bound = promises.freed_within
    if bound is None:
        return []
    troubles = Troubles(history, promises)
    found: list[Violation] = []
    for lock in locks(history):
        for one in lock.acquires:
            if one.outcome != "fail" or one.detail not in REFUSALS:
                continue
            since = _untouched_since(lock, one, troubles, promises)
            if one.end - since > bound + promises.slack and not troubles.between(
                one.client, one.begin, one.end
            ):
                message = (
                    f"{one.client} was refused {lock.name!r} at {one.end:.6f} s although nobody "
                    f"can have held it since {since:.6f} s: something was left behind"
                )
                found.append(Violation("no_orphan", message, one.events))
    return found


def _untouched_since(
    lock: Tenures, newcomer: Operation, troubles: Troubles, promises: Promises
) -> float:
    """Return the last moment before a refusal at which another client held or wanted the lock."""
    since = 0.0
    for one in lock.tenures:
        if one.asked_at < newcomer.end:
            since = max(since, one.possible_until(promises))
    for other in lock.acquires:
        if other is not newcomer and other.outcome != "ok" and other.begin < newcomer.end:
            since = max(since, _gone_at(other, troubles, promises))
    return since
