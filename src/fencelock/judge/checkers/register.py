"""Check that the guarded register loses no acknowledged update and accepts no stale operation.

A register holds a number. Under a lease it is read and then written; what a tenure writes rests on
what the same tenure read last.
"""

from __future__ import annotations

from ..history import History, Operation, Violation
from ..promises import Promises

TOUCHES = ("enter", "read", "write")


def no_lost_update(history: History, promises: Promises) -> list[Violation]:
    """Check that no two acknowledged writes rest on one value, and that reads see acknowledged
    writes."""
    found: list[Violation] = []
    for name, here in _registers(history).items():
        writes = [one for one in here if one.verb == "write" and one.outcome != "fail"]
        reads = [one for one in here if one.verb == "read" and one.outcome == "ok"]
        found += _twice_on_one(name, reads, writes)
        found += _forgotten(name, reads, writes)
    return found


def _twice_on_one(name: str, reads: list[Operation], writes: list[Operation]) -> list[Violation]:
    """Find two tenures that read the same value and both wrote: one of the updates is lost."""
    values = [write.value for write in writes]
    based: dict[int | None, Operation] = {}
    found: list[Violation] = []
    for write in writes:
        if write.outcome != "ok":
            continue
        before = [r for r in reads if _same_tenure(r, write) and r.end <= write.begin]
        if not before or any(
            _same_tenure(w, write) and before[-1].end < w.end <= write.begin for w in writes
        ):
            continue  # a blind write, or one that rests on a write of its own
        value = before[-1].value
        if values.count(value) > 1:
            continue  # it was written more than once: which write was read is unknown
        other = based.setdefault(value, write)
        if other is not write:
            message = (
                f"an update of {name!r} is lost: {other.client} wrote {other.value} and "
                f"{write.client} wrote {write.value}, both having read {value}"
            )
            found.append(Violation("no_lost_update", message, other.events + write.events))
    return found


def _forgotten(name: str, reads: list[Operation], writes: list[Operation]) -> list[Violation]:
    """Find reads of a value although a later one was acknowledged before they began."""
    found: list[Violation] = []
    acknowledged = sorted((w for w in writes if w.outcome == "ok"), key=lambda write: write.end)
    for read in reads:
        before = [write for write in acknowledged if write.end < read.begin]
        if not before:
            continue
        sources = [write for write in writes if write.value == read.value]
        newest = max(before, key=lambda write: write.begin)
        if not any(source.end >= newest.begin for source in sources):
            message = (
                f"{read.client} read {read.value} from {name!r} although {newest.client}'s "
                f"{newest.value} was acknowledged before"
            )
            found.append(Violation("no_lost_update", message, newest.events + read.events))
    return found


def nothing_stale(history: History, promises: Promises) -> list[Violation]:
    """Check that no old fence is accepted after a higher one was, be it in a read or a write.

    A holder of a read lock may have a lower fence than other readers, but not than a writer.
    """
    found: list[Violation] = []
    for name, here in _registers(history).items():
        accepted = [one for one in here if one.outcome == "ok" and one.fence]
        by_end = sorted(accepted, key=lambda one: one.end)
        highest: dict[bool, Operation] = {}
        index = 0
        for one in accepted:  # in the order of their beginnings
            while index < len(by_end) and by_end[index].end < one.begin:
                for written in {False, by_end[index].role != "read"}:
                    if written not in highest or by_end[index].fence > highest[written].fence:
                        highest[written] = by_end[index]
                index += 1
            other = highest.get(one.role == "read")  # a reader is compared with writers only
            if other is not None and one.fence < other.fence:
                message = (
                    f"{name!r} accepted a {one.verb} of {one.client} with fence {one.fence} after "
                    f"it had accepted fence {other.fence} of {other.client}"
                )
                found.append(Violation("nothing_stale", message, other.events + one.events))
    return found


def _registers(history: History) -> dict[str, list[Operation]]:
    registers: dict[str, list[Operation]] = {}
    for operation in history.operations(*TOUCHES):
        registers.setdefault(operation.name, []).append(operation)
    return registers


def _same_tenure(one: Operation, other: Operation) -> bool:
    return one.client == other.client and one.fence == other.fence
