"""The events of the clients and servers in a history, each with its time and its text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ...judge import Operation
from ...judge.checkers.tenures import TOO_LATE
from .reading import BEGINS, Reading

SILENT = ("kept", "freed", "queued", "withdrawn")
"""Notes about the engine, not a client: the lane of a server shows its state where it is known."""
NOTES = {
    "pause": "is frozen", "resume": "goes on", "crash": "is killed", "restart": "begins anew",
    "partition": "is cut off", "heal": "is reachable again", "lost": "its lease is lost",
    "told": "is told that its lease is lost", "expired": "its lease is taken away",
    "clock": "its clock steps", "cancel": "its call is cancelled",
}  # fmt: skip


def events(reading: Reading, highest: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return all events in order of time; ``highest`` gives the highest fence that the register had
    seen, for each operation that was refused."""
    return sorted(_EventBuilder(reading, highest).events(), key=lambda event: event["at"])


class _EventBuilder:
    def __init__(self, reading: Reading, highest: Mapping[int, int]) -> None:
        self._reading = reading
        self._highest = highest

    def events(self) -> Iterator[dict[str, Any]]:
        many = len({lock.name for lock in self._reading.locks}) > 1
        for one in self._reading.operations:
            if one.client in self._reading.clients and one.seen <= self._reading.died(one):
                what = self._reading.call(one.name) if many or not one.name else "the lock"
                yield from self._operation_events(one, what)
        known = {*self._reading.clients, *self._reading.report.servers}
        begun = {(span.lane, span.kind, span.begin) for span in self._reading.fault_spans}
        ended = {(span.lane, span.kind, span.end) for span in self._reading.fault_spans}
        ends = dict(BEGINS.values())
        for event in self._reading.report.history:
            if event.kind != "note" or event.verb in SILENT or event.client not in known:
                continue
            kind = BEGINS[event.verb][1] if event.verb in BEGINS else ends.get(event.verb, "")
            told = begun if event.verb in BEGINS else ended
            if kind and (event.client, kind, event.at) not in told:
                continue  # the second report of the same fault
            words = NOTES.get(event.verb, event.verb)
            words += f": {event.detail}" if event.detail else ""
            yield self._event(event.at, event.client, event.verb, words, event.name, event.fence)
        for event in self._reading.report.losses:
            words = f"writes without a guard: {event.detail}"
            yield self._event(event.at, event.client, "lost update", words, event.name)

    def _operation_events(self, one: Operation, what: str) -> Iterator[dict[str, Any]]:
        lane, name, fence = one.client, one.name, one.fence
        with_fence = f" with fence {self._reading.fences.get(fence, fence)}" if fence else ""
        slot = "" if one.slot is None else f", slot {one.slot}"
        role = f" to {one.role}" if one.role in ("read", "write") else ""
        why = f": {one.detail}" if one.detail else ""
        match one.verb, one.outcome:
            case "acquire", "ok":
                words = f"holds {what}{role}{slot}{with_fence}"
                yield self._event(one.end, lane, "granted", words, name, fence)
            case "acquire", "fail" | "unknown":
                words = f"does not get {what}{why}"
                yield self._event(one.seen, lane, "refused lock", words, name)
            case "release", "ok":
                yield self._event(one.end, lane, "released", "releases it", name, fence)
            case "release", "fail" | "unknown":
                late = "" if one.outcome == "unknown" else ": it was no longer its own"
                words = f"releases it{late if one.detail in TOO_LATE else why}"
                yield self._event(one.seen, lane, "released late", words, name, fence)
            case "write", "ok":
                yield self._event(one.end, lane, "written", f"writes {one.value}", name, fence)
            case (("enter" | "read" | "write"), "fail"):
                highest = self._highest.get(one.op, 0)
                below = (
                    f" is below {self._reading.fences.get(highest, highest)}"
                    if highest
                    else " is too old"
                )
                words = f"{one.verb}: refused,{with_fence[5:] or ' it'}{below}"
                event = self._event(one.seen, lane, "refused", words, name, fence)
                yield event | ({"highest": highest} if highest else {})
            case (("enter" | "read"), _):
                pass
            case verb, outcome if not math.isinf(one.seen):
                words = f"{verb} {self._reading.call(name)}: {outcome}{why}"
                yield self._event(one.seen, lane, verb, words, name, fence)
            case _:
                pass

    def _event(
        self, at: float, lane: str, kind: str, words: str, name: str, fence: int = 0
    ) -> dict[str, Any]:
        event: dict[str, Any] = {"at": at, "lane": lane, "kind": kind, "name": name,
                                 "words": self._reading.worded(words)}  # fmt: skip
        return event | ({"fence": fence} if fence else {})
