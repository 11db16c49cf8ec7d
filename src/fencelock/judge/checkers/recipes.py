"""Checkers of what elections and schedules promise beyond the mutex that they are made of."""

from __future__ import annotations

from ..history import History, Operation, Violation
from ..promises import Promises
from .holding import grow
from .tenures import Troubles, locks

SKIPPED = "skipped"


def one_leader(history: History, promises: Promises) -> list[Violation]:
    """Check that each epoch has one leader, that epochs only grow, and that no look sees an earlier
    one.

    A look that begins after a term was won, or after another look has seen it, sees that term or a
    later one, or that nobody leads.
    """
    troubles = Troubles(history, promises)
    looks = history.operations("look")
    found: list[Violation] = []
    for lock in locks(history, "lock"):
        terms = [one for one in lock.tenures if one.role == "leader"]
        found += grow("one_leader", terms, promises, troubles)
        here = [one for one in looks if one.name == lock.name and one.outcome == "ok" and one.fence]
        known = [(one.granted_at, one.fence, one.events) for one in terms]
        known += [(one.end, one.fence, one.events) for one in here]
        for look in here:
            before = [one for one in known if one[0] < look.begin]
            at, epoch, events = max(before, key=lambda one: one[1], default=(0.0, 0, ()))
            if look.fence < epoch:
                message = (
                    f"{look.client} saw epoch {look.fence} of {look.name!r} at {look.end:.6f} s, "
                    f"after epoch {epoch} was known at {at:.6f} s"
                )
                found.append(Violation("one_leader", message, events + look.events))
    return found


def once_per_window(history: History, promises: Promises) -> list[Violation]:
    """Check that at most one run of a window succeeds; without a window, at most one of a name.

    A run whose outcome is unknown is no violation: a client that got no confirmation that its work
    was remembered was told that another client may repeat it.
    """
    first: dict[tuple[str, int | None], Operation] = {}
    found: list[Violation] = []
    for run in history.operations("run"):
        if run.outcome != "ok":
            continue
        other = first.setdefault((run.name, run.value), run)
        if other is not run:
            message = (
                f"the work of {_which(run)} was done by {other.client} and, at {run.end:.6f} s, by "
                f"{run.client}"
            )
            found.append(Violation("once_per_window", message, other.events + run.events))
    return found


def skipped_when_done(history: History, promises: Promises) -> list[Violation]:
    """Check that work is skipped only if it was done, or while other clients were doing it.

    It was done if a run of this window or of a later one succeeded or may have. Any other client
    that tried at the same time may have had the lock, which the engine may keep for as long as any
    lock that was given back.
    """
    runs, troubles = history.operations("run"), Troubles(history, promises)
    found: list[Violation] = []
    for one in runs:
        if one.outcome != "fail" or one.detail != SKIPPED:
            continue
        others = [run for run in runs if run is not one and run.name == one.name]
        if not any(_explains(run, one, troubles, promises) for run in others):
            message = (
                f"{one.client} skipped the work of {_which(one)} at {one.end:.6f} s, which nobody "
                "had done or was doing"
            )
            found.append(Violation("skipped_when_done", message, one.events))
    return found


def _which(run: Operation) -> str:
    return repr(run.name) if run.value is None else f"{run.name!r} for window {run.value}"


def _explains(run: Operation, skipped: Operation, troubles: Troubles, promises: Promises) -> bool:
    """Return whether a run may be the reason why another was skipped."""
    if run.begin >= skipped.end:
        return False
    if run.outcome != "fail" and (run.value or 0) >= (skipped.value or 0):
        return True
    within = promises.ttl if promises.undone_within is None else promises.undone_within
    ended = min(run.seen, troubles.crash_after(run.client, run.begin))
    latest = troubles.having_run(run.client, ended, within + promises.slack)
    cut_off = troubles.between(run.client, run.begin, latest)
    if cut_off or run.outcome in ("unknown", "open"):
        latest += promises.ttl  # it may have given nothing back
    return latest >= skipped.begin
