"""A history as spans of time: when each client waited, held, was frozen or believed wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...judge import History, Operation, Violation
from ...judge.checkers.tenures import Tenure, Troubles, locks
from ...judge.promises import Promises
from .report import Report

FIRST_FENCE = 33
LONG_NUMBER = re.compile(r"\d{8,}")
VIOLATIONS_MAX = 20
"""The most violations of one checker that are reported as text."""
ROUND = 6
WAITS = ("acquire", "meet", "await")
TOUCHES = ("enter", "read", "write")
BEGINS = {"pause": ("resume", "frozen"), "partition": ("heal", "cut"), "crash": ("restart", "down")}
EXACT = Promises()


class Span(NamedTuple):
    lane: str
    kind: str
    begin: float
    end: float
    lock: str = ""
    """The name of the lock; empty for a fault, which concerns no particular lock."""
    fence: int = 0
    slot: int | None = None
    role: str = ""


class Reading:
    """A history with its spans, and the names to show for its locks and fences."""

    def __init__(self, report: Report) -> None:
        self.report = report
        history = report.history
        self.end = history.ends_at
        self.operations = history.operations()
        self.clients = _clients(history, report.servers)
        self.locks = list(locks(history))
        self._troubles = Troubles(history, EXACT)
        self.fault_spans = list(self._fault_spans())
        self.spans = sorted(self._spans(), key=lambda span: span.begin)
        seen = {one.fence for one in self.operations if one.verb == "acquire"} - {0}
        long = any(fence >= 10**7 for fence in seen)
        self.fences = {f: n for n, f in enumerate(sorted(seen), FIRST_FENCE)} if long else {}
        self.names = self._groups()
        self.told_of = {
            int(number)
            for ruling in report.rulings
            for one in sorted(ruling.violations, key=self.broken_at)[:VIOLATIONS_MAX]
            for number in LONG_NUMBER.findall(one.message)
        }

    def _groups(self) -> list[str]:
        """Return the locks that have parts of their own; one empty name if all share the parts, as
        when some are acquired together."""
        together = any(one.value is not None for one in self.operations if one.verb == "acquire")
        names = list(dict.fromkeys(lock.name for lock in self.locks))
        return [""] if together or len(names) < 2 else sorted(names)

    def _spans(self) -> Iterator[Span]:
        yield from self.fault_spans
        for one in self.operations:
            if one.verb in WAITS and one.client in self.clients:
                end = min(one.seen, self.died(one), self.end)
                yield Span(one.client, "waits", one.begin, end, one.name)
        for lock in self.locks:
            for tenure in lock.tenures:
                over = min(tenure.left_at, tenure.crashed_at, self.end)
                held = (tenure.name, tenure.fence, tenure.slot, tenure.role)
                yield Span(tenure.client, "holds", tenure.granted_at, over, *held)
                wrong = max(self._gone(tenure, lock.tenures), tenure.granted_at)
                if wrong < over:
                    yield Span(tenure.client, "believes wrongly", wrong, over, *held)

    def died(self, one: Operation) -> float:
        """Return when the client of an operation was killed after it had begun, or infinity."""
        return self._troubles.crash_after(one.client, one.begin)

    def _gone(self, tenure: Tenure, all_of_it: Sequence[Tenure]) -> float:
        """Return when a tenure had ended: at the first report of it, or when one that it excludes
        was granted."""
        later = [
            other.granted_at
            for other in all_of_it
            if other.granted_at > tenure.granted_at
            and other.fence >= tenure.fence
            and tenure.excludes(other)
        ]
        return min([tenure.lost_at, *later])

    def _fault_spans(self) -> Iterator[Span]:
        """Iterate over the spans in which a client or server was frozen, cut off or down; one that
        is down is not frozen.

        A pause may be reported twice: by its cause, and by the process, which ran for the last time
        a while before. The later beginning counts.
        """
        known = {*self.clients, *self.report.servers}
        begun: dict[tuple[str, str], float] = {}
        for event in self.report.history:
            if event.kind != "note" or event.client not in known:
                continue
            for verb, (ends, kind) in BEGINS.items():
                is_over = event.verb == ends or (event.verb == "crash" and verb == "pause")
                if is_over and (since := begun.pop((event.client, verb), None)) is not None:
                    yield Span(event.client, kind, since, event.at)
            if event.verb in BEGINS:
                begun[event.client, event.verb] = event.at
        for (client, verb), since in begun.items():
            yield Span(client, BEGINS[verb][1], since, self.end)

    def call(self, name: str) -> str:
        return self.report.names.get(name, name)

    def worded(self, words: str) -> str:
        """Return a text with short fences, and with the names to show for locks."""
        for name, called in self.report.names.items():
            words = words.replace(repr(name), called).replace(name, called)
        words = words.replace(" (fence 0)", "")
        return LONG_NUMBER.sub(lambda one: str(self.fences.get(int(one[0]), one[0])), words)

    def broken_at(self, violation: Violation) -> float:
        """Return since when a promise is broken."""
        if violation.at is not None:
            return violation.at
        seen = [self.report.history[index].at for index in violation.events]
        return max(seen, default=self.end)

    def lock_of(self, violation: Violation) -> str:
        if self.names == [""]:
            return ""
        names = [self.report.history[index].name for index in violation.events]
        names += [one.name for one in self.report.losses if one.at == violation.at]
        bases = [name.partition("#")[0] for name in names]
        return next((name for name in bases if name in self.names), self.names[0])

    def is_about(self, name: str, lock: str) -> bool:
        """Return whether a name belongs to a lock's part; one without a part belongs to all."""
        base = name.partition("#")[0]
        return not lock or not name or base == lock or base not in self.names

    def has_many(self) -> bool:
        return len({lock.name for lock in self.locks}) > 1


def _clients(history: History, servers: Sequence[str]) -> list[str]:
    """Return the clients, in the order of their names; one that only uses the register is none, as
    an observer that reads it in the end."""
    asked = {
        one.client for one in history if one.kind == "invoke" and one.verb not in TOUCHES
    }  # fmt: skip
    return sorted(asked - {*servers}, key=natural)


def natural(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """Return a sort key by the numbers in a name; a name without one, as an auditor's, is last."""
    words = re.split(r"(\d+)", name)
    return len(words) < 2, [(int(one), "") if one.isdigit() else (-1, one) for one in words]


def rounded(at: float) -> float:
    return round(at, ROUND)
