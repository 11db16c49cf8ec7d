"""Checkers of barriers and latches: nobody goes on too early, and nobody is left behind.

At a barrier a party *meets* the others: the operation succeeds when it passes. A latch is
*counted* down, and *awaited*.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..history import History, Operation, Violation
from ..promises import Promises
from .tenures import NEVER, Troubles


def _by_name(operations: list[Operation]) -> dict[str, list[Operation]]:
    found: dict[str, list[Operation]] = {}
    for one in operations:
        found.setdefault(one.name, []).append(one)
    return found


def all_have_come(history: History, promises: Promises) -> list[Violation]:
    """Check that a party passes a barrier only when as many parties were there as it takes.

    Each party that has passed is counted once: as many have come as all meetings needed. A party
    that crashed, or disappeared, counts until its ttl is over. One that passed after its deadline,
    or after its slot was taken away, may have made room for another. One that was disturbed may
    have been passed over when it was given a slot, and counts for a second meeting.
    """
    troubles = Troubles(history, promises)
    revoked = {event.op for event in history if event.verb == "expired"}
    found: list[Violation] = []
    taken = _by_name(history.operations("acquire"))  # an acquire that takes a slot is a party too
    for name, meets in _by_name(history.operations("meet")).items():
        stays = [(one.begin, _there_until(one, troubles, promises)) for one in meets]
        stays += [(one.begin, NEVER) for one in taken.get(name, [])]
        passed = sorted((one for one in meets if one.outcome == "ok"), key=lambda one: one.end)
        again = {one.op: troubles.between(one.client, one.begin, one.seen) for one in meets}
        meetings = 0
        for one in passed:
            most = max(
                sum(begin <= moment <= until for begin, until in stays)
                for moment in {one.begin, *(begin for begin, _ in stays)}
                if one.begin <= moment <= one.end
            )
            if most < one.limit:
                message = (
                    f"{one.client} passed {one.name!r} at {one.end:.6f} s, when {most} of "
                    f"{one.limit} parties can have been there"
                )
                found.append(Violation("all_have_come", message, one.events))
            meetings += one.seen <= one.deadline and one.op not in revoked
            needed = -(-meetings // one.limit) * one.limit
            came = sum(1 + again[other.op] for other in meets if other.begin <= one.end)
            if came < needed and promises.woken_within is not None:
                message = (
                    f"{one.client} passed {one.name!r} at {one.end:.6f} s as number {meetings}, "
                    f"which takes {needed} parties, and {came} had come by then"
                )
                found.append(Violation("all_have_come", message, one.events))
    return found


def _there_until(one: Operation, troubles: Troubles, promises: Promises) -> float:
    """Return until when a party may have been counted."""
    ended = min(one.seen, troubles.crash_after(one.client, one.begin))
    if one.outcome in ("ok", "fail") and not troubles.between(one.client, one.begin, ended):
        return ended
    if one.outcome in ("open", "unknown") and not one.fence:
        return NEVER  # it may be queued for a slot, which it is given when one is free
    return ended + promises.ttl + promises.slack


def none_left_at_a_barrier(history: History, promises: Promises) -> list[Violation]:
    """Check that once a party has passed a barrier, all that came before it pass soon.

    So do all that were there with it, if no more were there than it takes: then they are the
    parties of that meeting.
    """
    bound = promises.woken_within
    if bound is None:
        return []
    troubles = Troubles(history, promises)
    found: list[Violation] = []
    for meets in _by_name(history.operations("meet")).values():
        met = _met(meets, troubles, promises)
        for one in meets:
            after = [
                other for other in meets if other.outcome == "ok" and other.fence > one.fence > 0
            ]
            after += [other for other, those in met if one in those]
            opened = min((other.end for other in after), default=NEVER)
            if _is_left(one, opened, bound, troubles, promises):
                message = (
                    f"{one.client} had come to {one.name!r} before others that passed at "
                    f"{opened:.6f} s, and was there until {one.seen:.6f} s: {one.outcome}"
                )
                found.append(Violation("none_left_at_a_barrier", message, one.events))
    return found


def _met(
    meets: list[Operation], troubles: Troubles, promises: Promises
) -> list[tuple[Operation, list[Operation]]]:
    """Return the parties that passed, each with all that were there, if those were just enough."""
    there = [(one, _there_until(one, troubles, promises)) for one in meets]
    found: list[tuple[Operation, list[Operation]]] = []
    for one in meets:
        those = [other for other, until in there if other.begin <= one.end and until >= one.begin]
        if one.outcome == "ok" and len(those) == one.limit:
            found.append((one, those))
    return found


def _is_left(
    one: Operation, opened: float, bound: float, troubles: Troubles, promises: Promises
) -> bool:
    """Return whether a running client was kept waiting for too long after a moment."""
    since = max(opened, one.begin)
    if since == NEVER or troubles.crash_after(one.client, one.begin) < NEVER:
        return False
    latest = troubles.having_run(one.client, since, bound + promises.slack)
    recovered = troubles.last_before(one.client, one.seen)
    return one.seen > max(latest, recovered + 2 * bound)


def counts_are_kept(history: History, promises: Promises) -> list[Violation]:
    """Check that a latch opens when it was counted down as often as its limit, and not before.

    No client goes on before; and the result of a count includes all counts that were answered
    before it, and none that had not begun. The detail of a count names its counter: two counts with
    the same text are the same count.
    """
    operations = history.operations("count", "await")
    counts = _by_name([one for one in operations if one.verb == "count"])
    found: list[Violation] = []
    for one in operations:
        if one.outcome != "ok":
            continue
        here = counts.get(one.name, [])
        begun = _distinct(other for other in here if other.begin <= one.end)
        sure = _distinct(
            other
            for other in here
            if other is one or (other.outcome == "ok" and other.end < one.begin)
        )
        left = 0 if one.verb == "await" else one.value or 0
        if left < one.limit - begun or (one.verb == "count" and left > max(0, one.limit - sure)):
            message = (
                f"{one.client} was told at {one.end:.6f} s that {left} of {one.limit} counts of "
                f"{one.name!r} were missing, when {begun} had begun and {sure} had ended before"
            )
            found.append(Violation("counts_are_kept", message, one.events))
    return found


def _distinct(counts: Iterable[Operation]) -> int:
    """Return how many distinct counts these are; one without a name is distinct from all others."""
    return len({one.detail or one.op for one in counts})


def none_left_at_a_latch(history: History, promises: Promises) -> list[Violation]:
    """Check that once a latch was counted down, all that await it, now or later, go on soon."""
    bound = promises.woken_within
    if bound is None:
        return []
    troubles, counts = Troubles(history, promises), _by_name(history.operations("count"))
    found: list[Violation] = []
    for one in history.operations("await"):
        ended = sorted(
            (other for other in counts.get(one.name, []) if other.outcome == "ok"),
            key=lambda other: other.end,
        )
        opened = next(
            (
                other.end
                for place, other in enumerate(ended)
                if _distinct(ended[: place + 1]) >= one.limit
            ),
            NEVER,
        )
        late = _is_left(one, opened, bound, troubles, promises)
        refused = one.outcome == "fail" and one.detail == "not in time" and one.begin > opened
        if late or (refused and not troubles.between(one.client, one.begin, one.seen)):
            message = (
                f"{one.client} awaited {one.name!r} from {one.begin:.6f} s to {one.seen:.6f} s "
                f"({one.outcome}), which was counted down at {opened:.6f} s"
            )
            found.append(Violation("none_left_at_a_latch", message, one.events))
    return found
