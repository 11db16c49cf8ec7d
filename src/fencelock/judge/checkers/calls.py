"""Checkers of calls that end in time, and of calls that deny what has happened."""

from __future__ import annotations

from ..history import Event, History, Operation, Violation
from ..promises import Promises
from .tenures import NEVER, Tenure, Tenures, Troubles, is_too_late, locks


def ends_in_time(history: History, promises: Promises) -> list[Violation]:
    """Check that no call outlasts its caller's deadline, or its cancellation, by more than the
    grace.

    The time of a client's pauses does not count, and the calls of a killed client are not judged.
    """
    if promises.grace is None:
        return []
    troubles = Troubles(history, promises)
    found: list[Violation] = []
    for call in history.operations():
        if call.deadline == NEVER:
            continue
        since = max(call.begin, call.deadline)
        latest = troubles.having_run(call.client, since, promises.grace + promises.slack)
        if troubles.crash_after(call.client, call.begin) <= latest:
            continue
        if min(call.seen, history.ends_at) > latest:
            ended = "had not ended" if call.seen == NEVER else f"ended at {call.seen:.6f} s"
            message = (
                f"the {call.verb} of {call.name!r} by {call.client} {ended}: it should have by "
                f"{call.deadline:.6f} s, or {promises.grace:g} s later at the latest"
            )
            found.append(Violation("ends_in_time", message, call.events))
    return found


def no_false_word(history: History, promises: Promises) -> list[Violation]:
    """Check that a call that reported failure had no effect.

    An acquire that failed leaves neither the lock nor an entry in the queue that is granted later.
    A release that failed for another reason than that it came too late has freed nothing. A call
    that cannot know says so: an unknown outcome is no violation.
    """
    if promises.undone_within is None:
        return []
    troubles = Troubles(history, promises)
    notes = [event for event in history if event.kind == "note"]
    kept = [event for event in notes if event.verb == "kept"]
    freed = [event for event in notes if event.verb == "freed"]
    return [
        violation
        for lock in locks(history)
        for violation in (
            *_kept_for_nobody(lock, kept, troubles, promises),
            *_freed_by_nobody(lock, freed, history),
        )
    ]


def _kept_for_nobody(
    lock: Tenures, kept: list[Event], troubles: Troubles, promises: Promises
) -> list[Violation]:
    """Find locks that the engine keeps for a client all of whose attempts ended without it."""
    tenures = {one.events[0]: one for one in lock.tenures}
    found: dict[int, Violation] = {}
    for note in kept:
        if note.name != lock.name:
            continue
        attempts = [one for one in lock.acquires if _is_whose(note, one)]
        latest = [_explained_until(one, tenures, troubles, promises) for one in attempts]
        if not attempts or note.at <= max(latest):
            continue
        last = attempts[latest.index(max(latest))]
        what = "got it" if last.outcome == "ok" else "failed"
        message = (
            f"the engine kept {lock.name!r} for {note.client} at {note.at:.6f} s, whose attempt "
            f"{what} at {last.seen:.6f} s and which had nothing left there"
        )
        found.setdefault(last.op, Violation("no_false_word", message, last.events))
    return list(found.values())


def _is_whose(note: Event, acquire: Operation) -> bool:
    if note.op:
        return note.op == acquire.op
    return note.client == acquire.client and acquire.begin <= note.at


def _explained_until(
    acquire: Operation, tenures: dict[int, Tenure], troubles: Troubles, promises: Promises
) -> float:
    """Return until when the engine may keep the lock for an attempt, by its reported outcome."""
    tenure = tenures.get(acquire.events[0])
    if acquire.outcome == "fail":
        over = acquire.seen
    elif tenure is not None and tenure.released:
        over = tenure.freed_at
    else:
        return NEVER
    within = promises.undone_within or 0.0
    latest = troubles.having_run(acquire.client, over, within + promises.slack)
    if within and troubles.between(acquire.client, acquire.begin, latest):
        latest += promises.ttl  # a client that is cut off undoes nothing
    return latest


def _freed_by_nobody(lock: Tenures, freed: list[Event], history: History) -> list[Violation]:
    """Find locks that the engine gave up although every release of them reported that it failed."""
    releases = {one.events[0]: one for one in lock.releases}
    found: list[Violation] = []
    for one in lock.tenures:
        op = history[one.events[0]].op
        ours = [releases[index] for index in one.events[2:] if index in releases]
        for note in freed:
            tried = [release for release in ours if release.begin <= note.at]
            if note.op == op and tried and all(map(_did_nothing, tried)):
                message = (
                    f"the engine gave {lock.name!r} up at {note.at:.6f} s, and the release by "
                    f"{one.client} is said to have done nothing: {tried[-1].detail}"
                )
                found.append(Violation("no_false_word", message, tried[-1].events))
    return found


def _did_nothing(release: Operation) -> bool:
    return release.outcome == "fail" and not is_too_late(release)
