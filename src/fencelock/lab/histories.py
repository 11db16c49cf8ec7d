"""Traces of a history: of a torture of real processes, or of a simulated run.

A history is longer than a picture. It is cut into parts, each of them a trace like that of a play:
one lock, a stretch of time, and the clients that took part in it. What went wrong comes first; the
number of parts, their lanes and their size are bounded, and each part says what is left out.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from .. import __version__
from ..judge import Event, History, Operation, Ruling, Violation
from ..judge.checkers.tenures import TOO_LATE, Tenure, Troubles, locks
from ..judge.promises import Promises
from ..web.bundle import one_file
from .trace import VERSION, Trace, digest_of

FIRST_FENCE = 33
LONG_NUMBER = re.compile(r"\d{8,}")
CLIENTS_MAX = 8
"""Clients of one part, so many of whom hold the lock in it: each has a color of its own."""
MESSAGES_MAX = 1500
REGISTERS_MAX = 3
GRANTS_MAX = 24
"""Grants of one part."""
BEFORE, AFTER = 10, 5
"""Grants that are shown before and after what went wrong."""
SECONDS_MAX = 20.0
AROUND_MAX = 16
"""Parts that are about what went wrong."""
PARTS_MAX = 200
BYTES_MAX = 3_000_000
"""Of all parts of a history, as JSON."""
VIOLATIONS_MAX = 20
"""Of one checker, that are told in words."""
ROUND = 6
WAITS = ("acquire", "meet", "await")
TOUCHES = ("enter", "read", "write")
BEGINS = {"pause": ("resume", "frozen"), "partition": ("heal", "cut"), "crash": ("restart", "down")}
SILENT = ("kept", "freed", "queued", "withdrawn")
"""Notes of what an engine does, and no client: the lane of a server shows it where it is known."""
NOTES = {
    "pause": "is frozen", "resume": "goes on", "crash": "is killed", "restart": "begins anew",
    "partition": "is cut off", "heal": "is reachable again", "lost": "its lease is lost",
    "told": "is told that its lease is lost", "expired": "its lease is taken away",
    "clock": "its clock steps", "cancel": "its call is cancelled",
}  # fmt: skip
EXACT = Promises()


class Report(NamedTuple):
    """A history, and what is to be read beside its picture."""

    history: History
    rulings: Sequence[Ruling]
    title: str
    facts: Sequence[tuple[str, str]] = ()
    """What was run, when, by which versions: each with its name."""
    figures: Sequence[str] = ()
    conclusion: str = ""
    names: Mapping[str, str] = {}
    """What to call the locks and registers."""
    losses: Sequence[Event] = ()
    """Writes that made a register without a guard forget what others had written."""
    servers: Sequence[str] = ()
    states: Mapping[str, Sequence[tuple[float, dict[str, Any]]]] = {}
    """Of the servers, where somebody saw into them."""
    messages: Sequence[Mapping[str, Any]] = ()


class Part(NamedTuple):
    """A stretch of a history."""

    name: str
    title: str
    trace: Trace


class _Window(NamedTuple):
    lock: str
    begin: float
    end: float
    about: str = ""
    """The question whose answer was no here."""
    at: float = 0.0
    """And since when."""


def parts(report: Report, bytes_max: int = BYTES_MAX, prefix: str = "") -> list[Part]:
    """The parts of a history, what went wrong before the rest; at least one.

    The prefix begins their names, where a page shows several histories.
    """
    reading = _Reading(report)
    windows = reading.windows()
    made: list[tuple[_Window, dict[str, Any]]] = []
    size = 0
    for window in windows[:PARTS_MAX]:
        data = reading.part(window)
        size += len(Trace(data).json())
        if made and size > bytes_max:
            break
        made.append((window, data))
    made.sort(key=lambda one: (not one[0].about, _natural("" if one[0].about else one[0].lock)))
    shown = [window for window, _ in made]
    left_out, verdict = _left_out(shown, windows, bytes_max), reading.verdict(shown, prefix)
    found: list[Part] = []
    for number, (window, data) in enumerate(made, 1):
        title, about = reading.called(window), data["run"]
        about |= {"part": title, "left_out": [*about["left_out"], *left_out]}
        data |= {"verdict": verdict}
        versions = {"trace": VERSION, "fencelock": __version__}
        data |= {"digest": digest_of(data), "versions": versions}
        found.append(Part(f"{prefix}part-{number}", title, Trace(data)))
    return found


def page_of(shown: Sequence[Part]) -> str:
    """The page of the lab as one file that shows these parts."""
    held = [{"name": one.name, "title": one.title, "trace": one.trace.data} for one in shown]
    return one_file("lab", data={"parts": held})


def _left_out(shown: Sequence[_Window], windows: Sequence[_Window], bytes_max: int) -> list[str]:
    missing = [window for window in windows if not window.about and window not in shown]
    if not missing:
        return []
    first, last = min(one.begin for one in missing), max(one.end for one in missing)
    stretches = sum(not one.about for one in windows)
    told = (
        f"{len(missing)} of {stretches} stretches of time, between {first:.1f} s and {last:.1f} s"
    )
    return [
        f"{told}: a file holds {PARTS_MAX} parts and {bytes_max / 1e6:g} MB of them at the most"
    ]


class _Span(NamedTuple):
    lane: str
    kind: str
    begin: float
    end: float
    lock: str = ""
    """Empty for what befalls a client or a server, whatever it locks."""
    fence: int = 0
    slot: int | None = None
    role: str = ""


_States: TypeAlias = list[tuple[float, dict[str, Any]]]
UNTOUCHED = {"value": "", "mark": 0, "writes": 0, "refused": 0}


class _Reading:
    """A history, as spans, events and states."""

    def __init__(self, report: Report) -> None:
        self.report = report
        history = report.history
        self.end = history.ends_at
        self.operations = history.operations()
        self.clients = _clients(history, report.servers)
        self.locks = list(locks(history))
        self.troubles = Troubles(history, EXACT)
        self.spells = list(self._spells())
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
        self.registers, self.highest = self._touched()
        self.unguarded = self._unguarded()
        self.events = sorted(self._events(), key=lambda event: event["at"])

    # What there is to see

    def _groups(self) -> list[str]:
        """The locks that have parts of their own; one for all where some are acquired together."""
        together = any(one.value is not None for one in self.operations if one.verb == "acquire")
        names = list(dict.fromkeys(lock.name for lock in self.locks))
        return [""] if together or len(names) < 2 else sorted(names)

    def _call(self, name: str) -> str:
        return self.report.names.get(name, name)

    def _spans(self) -> Iterator[_Span]:
        yield from self.spells
        for one in self.operations:
            if one.verb in WAITS and one.client in self.clients:
                end = min(one.seen, self._died(one), self.end)
                yield _Span(one.client, "waits", one.begin, end, one.name)
        for lock in self.locks:
            for tenure in lock.tenures:
                over = min(tenure.left_at, tenure.crashed_at, self.end)
                held = (tenure.name, tenure.fence, tenure.slot, tenure.role)
                yield _Span(tenure.client, "holds", tenure.granted_at, over, *held)
                wrong = max(self._gone(tenure, lock.tenures), tenure.granted_at)
                if wrong < over:
                    yield _Span(tenure.client, "believes wrongly", wrong, over, *held)

    def _died(self, one: Operation) -> float:
        """When the client of an operation was killed after it had begun, if it was."""
        return self.troubles.crash_after(one.client, one.begin)

    def _gone(self, tenure: Tenure, all_of_it: Sequence[Tenure]) -> float:
        """When a tenure had ended: by a word, or because another was granted what it excludes."""
        later = [
            other.granted_at
            for other in all_of_it
            if other.granted_at > tenure.granted_at
            and other.fence >= tenure.fence
            and tenure.excludes(other)
        ]
        return min([tenure.lost_at, *later])

    def _spells(self) -> Iterator[_Span]:
        """When somebody was frozen, cut off or down; who is down is not frozen.

        Two may tell of one pause: whoever caused it, and the process, which ran for the last time
        some while before. The later beginning counts.
        """
        known = {*self.clients, *self.report.servers}
        begun: dict[tuple[str, str], float] = {}
        for event in self.report.history:
            if event.kind != "note" or event.client not in known:
                continue
            for verb, (ends, kind) in BEGINS.items():
                is_over = event.verb == ends or (event.verb == "crash" and verb == "pause")
                if is_over and (since := begun.pop((event.client, verb), None)) is not None:
                    yield _Span(event.client, kind, since, event.at)
            if event.verb in BEGINS:
                begun[event.client, event.verb] = event.at
        for (client, verb), since in begun.items():
            yield _Span(client, BEGINS[verb][1], since, self.end)

    def _events(self) -> Iterator[dict[str, Any]]:
        many = len({lock.name for lock in self.locks}) > 1
        for one in self.operations:
            if one.client in self.clients and one.seen <= self._died(one):
                what = self._call(one.name) if many or not one.name else "the lock"
                yield from self._told(one, what)
        known = {*self.clients, *self.report.servers}
        begun = {(span.lane, span.kind, span.begin) for span in self.spells}
        ended = {(span.lane, span.kind, span.end) for span in self.spells}
        ends = dict(BEGINS.values())
        for event in self.report.history:
            if event.kind != "note" or event.verb in SILENT or event.client not in known:
                continue
            kind = BEGINS[event.verb][1] if event.verb in BEGINS else ends.get(event.verb, "")
            told = begun if event.verb in BEGINS else ended
            if kind and (event.client, kind, event.at) not in told:
                continue  # the other of two who tell of it
            words = NOTES.get(event.verb, event.verb)
            words += f": {event.detail}" if event.detail else ""
            yield self._event(event.at, event.client, event.verb, words, event.name, event.fence)
        for event in self.report.losses:
            words = f"writes without a guard: {event.detail}"
            yield self._event(event.at, event.client, "lost update", words, event.name)

    def _told(self, one: Operation, what: str) -> Iterator[dict[str, Any]]:
        lane, name, fence = one.client, one.name, one.fence
        with_fence = f" with fence {self.fences.get(fence, fence)}" if fence else ""
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
                highest = self.highest.get(one.op, 0)
                below = (
                    f" is below {self.fences.get(highest, highest)}" if highest else " is too old"
                )
                words = f"{one.verb}: refused,{with_fence[5:] or ' it'}{below}"
                event = self._event(one.seen, lane, "refused", words, name, fence)
                yield event | ({"highest": highest} if highest else {})
            case (("enter" | "read"), _):
                pass
            case verb, outcome if not math.isinf(one.seen):
                words = f"{verb} {self._call(name)}: {outcome}{why}"
                yield self._event(one.seen, lane, verb, words, name, fence)
            case _:
                pass

    def _event(
        self, at: float, lane: str, kind: str, words: str, name: str, fence: int = 0
    ) -> dict[str, Any]:
        event: dict[str, Any] = {"at": at, "lane": lane, "kind": kind, "name": name,
                                 "words": self._worded(words)}  # fmt: skip
        return event | ({"fence": fence} if fence else {})

    def _worded(self, words: str) -> str:
        """Words with short fences, and with the names that locks are called by."""
        for name, called in self.report.names.items():
            words = words.replace(repr(name), called).replace(name, called)
        words = words.replace(" (fence 0)", "")
        return LONG_NUMBER.sub(lambda one: str(self.fences.get(int(one[0]), one[0])), words)

    def verdict(self, shown: Sequence[_Window], prefix: str) -> list[dict[str, Any]]:
        """All rulings; what went wrong names the parts that show it."""
        return [
            {
                "checker": ruling.checker,
                "question": ruling.question,
                "outcome": ruling.outcome,
                "why": self._worded(ruling.why),
                "violations": [
                    {
                        "at": _time(self.broken_at(one)),
                        "words": self._worded(one.message),
                        "parts": self._parts_of(one, shown, prefix),
                    }
                    for one in sorted(ruling.violations, key=self.broken_at)[:VIOLATIONS_MAX]
                ],
                "more": max(0, len(ruling.violations) - VIOLATIONS_MAX),
            }
            for ruling in self.report.rulings
        ]

    def _parts_of(self, one: Violation, shown: Sequence[_Window], prefix: str) -> list[str]:
        at, lock = self.broken_at(one), self._lock_of(one)
        return [
            f"{prefix}part-{number}"
            for number, window in enumerate(shown, 1)
            if window.lock == lock and window.begin <= at <= window.end
        ]

    def broken_at(self, violation: Violation) -> float:
        """Since when it is so."""
        if violation.at is not None:
            return violation.at
        seen = [self.report.history[index].at for index in violation.events]
        return max(seen, default=self.end)

    # Windows

    def windows(self) -> list[_Window]:
        """What went wrong, in the order of its time, and then everything."""
        regular: list[_Window] = []
        for name in self.names:
            regular += self._stretches(name)
        regular.sort(key=lambda window: window.begin)
        return [*self._around(regular), *regular] if len(regular) > 1 else regular

    def _marks(self, lock: str) -> list[tuple[float, str]]:
        """By what a history is cut: the grants of a lock, or else all that is done, with whose."""
        mine = [one for one in self.operations if one.client in self.clients]
        grants = sorted(
            (one.end, one.client)
            for one in mine
            if one.verb == "acquire" and one.outcome == "ok" and lock in ("", one.name)
        )
        return grants or sorted((one.begin, one.client) for one in mine) or [(0.0, "")]

    def _stretches(self, lock: str) -> list[_Window]:
        marks = self._marks(lock)
        asked = [
            one.begin for one in self.operations if one.verb == "acquire" and lock in ("", one.name)
        ]
        begin = max(0.0, min([*asked, marks[0][0]]) - 0.1)
        edges, count, holders = [begin], 0, set[str]()
        for mark, client in marks:
            is_full = count >= GRANTS_MAX or len(holders | {client}) > CLIENTS_MAX
            if count and (is_full or mark - edges[-1] > SECONDS_MAX):
                edges.append(mark)
                held = [span for span in self.spans if span.kind == "holds"
                        and span.begin < mark < span.end and lock in ("", span.lock)]  # fmt: skip
                count, holders = 0, {span.lane for span in held}
            count += 1
            holders.add(client)
        edges.append(max(self.end, begin + 0.1))
        return [_Window(lock, one, other) for one, other in pairwise(edges)]

    def _around(self, regular: Sequence[_Window]) -> list[_Window]:
        found: list[_Window] = []
        broken = [
            (self.broken_at(one), ruling.question, one)
            for ruling in self.report.rulings
            for one in ruling.violations
        ]
        for at, question, violation in sorted(broken, key=lambda one: one[0]):
            lock = self._lock_of(violation)
            near = [one for one in found if one.lock == lock and one.begin < at < one.end]
            if near or len(found) >= AROUND_MAX:
                continue
            marks = [mark for mark, _ in self._marks(lock)]
            here = sum(mark <= at for mark in marks)
            begin = marks[max(0, here - BEFORE)]
            seen = [self.report.history[index].at for index in violation.events]
            begin = max(min([begin, *seen]), at - SECONDS_MAX / 2) - 0.05
            end = marks[min(len(marks) - 1, here + AFTER)]
            end = min(max(end, at + 0.5), at + SECONDS_MAX / 2, max(self.end, at + 0.1))
            found.append(_Window(lock, max(0.0, begin), end, question, at))
        return found

    def _lock_of(self, violation: Violation) -> str:
        if self.names == [""]:
            return ""
        names = [self.report.history[index].name for index in violation.events]
        names += [one.name for one in self.report.losses if one.at == violation.at]
        bases = [name.partition("#")[0] for name in names]
        return next((name for name in bases if name in self.names), self.names[0])

    def called(self, window: _Window) -> str:
        """What a part is called."""
        lock = f"{self._call(window.lock)}, " if window.lock else ""
        if window.about:
            return f"{lock}around {window.at:.2f} s: {window.about}"
        return f"{lock}{window.begin:.1f} to {window.end:.1f} s"

    # Parts

    def part(self, window: _Window) -> dict[str, Any]:
        """The trace of a window, without its digest."""
        begin, end = window.begin, window.end
        last = math.inf if end >= self.end else end
        near = self.spans[: bisect_left(self.spans, last, key=lambda span: span.begin)]
        spans = [span for span in near if span.end > begin and self._is_about(span.lock, window)]
        clients, missing = self._who(window, spans)
        registers = self._registers(window)
        servers = [name for name in self.report.servers if name in self.report.states] or [
            *self.report.servers
        ]
        few = len(self.clients) <= CLIENTS_MAX
        lanes: list[dict[str, Any]] = [
            {"name": name, "kind": "client", "client": "process",
             "hue": self.clients.index(name) if few else number}
            for number, name in enumerate(clients)
        ]  # fmt: skip
        lanes += [{"name": name, "kind": "server"} for name in servers]
        lanes += [{"name": lane, "kind": "resource"} for lane in registers]
        shown = {*clients, *servers}
        spans = [span for span in spans if span.lane in shown]
        events = [
            {key: value for key, value in one.items() if key != "name"} | {"at": _time(one["at"])}
            for one in self._events_of(window)
            if one["lane"] in shown and self._is_about(one["name"], window)
        ]
        states = {name: self._client_states(name, spans, window) for name in clients}
        states |= {name: _cut(self.report.states.get(name, ()), window) for name in servers}
        states |= {lane: _cut(seen, window) for lane, seen in registers.items()}
        lasts = [seen[-1][1] for lane, seen in states.items() if lane in registers and seen]
        fences = {span.fence for span in spans} | {
            state.get("mark", 0) for lane in registers for _, state in states[lane]
        }
        fences |= self.told_of
        messages = [
            dict(one)
            for one in self.report.messages
            if begin <= one["sent"] <= end and {one["from"], one["to"]} <= shown
        ]
        if len(messages) > MESSAGES_MAX:
            missing.append(f"{len(messages) - MESSAGES_MAX} messages")
        return {
            "title": self.report.title,
            "from": _time(begin),
            "until": _time(end),
            "lanes": lanes,
            "messages": messages[:MESSAGES_MAX],
            "states": states,
            "spans": [self._span(span, window) for span in spans],
            "events": events,
            "steps": [],
            "fences": {str(one): self.fences[one] for one in sorted(fences) if one in self.fences},
            "verdict": [],
            "outcome": {
                "register": "",
                "writes": sum(int(one["writes"]) for one in lasts),
                "refused": sum(int(one["refused"]) for one in lasts),
                "broken": [one.checker for one in self.report.rulings if one.violations],
            },
            "expect": None,
            "document": None,
            "run": {
                "facts": [list(fact) for fact in self.report.facts],
                "figures": list(self.report.figures),
                "conclusion": self.report.conclusion,
                "left_out": missing,
            },
        }

    def _is_about(self, name: str, window: _Window) -> bool:
        """Whether what has a name belongs to the lock of a window: what has none does."""
        base = name.partition("#")[0]
        return not window.lock or not name or base == window.lock or base not in self.names

    def _events_of(self, window: _Window) -> list[dict[str, Any]]:
        """Those from its beginning until before its end, where the next may begin."""
        places = [
            bisect_left(self.events, at, key=lambda event: event["at"])
            for at in (window.begin, window.end)
        ]
        if window.end >= self.end:
            places[1] = len(self.events)
        return self.events[places[0] : places[1]]

    def _who(self, window: _Window, spans: Sequence[_Span]) -> tuple[list[str], list[str]]:
        """The clients of a part, and what is said of those that are left out."""
        ranks = dict.fromkeys(self.clients, 9)
        order = {"believes wrongly": 1, "holds": 2, "waits": 3}
        others = 4 if len(self.clients) <= CLIENTS_MAX else 9  # faults of those who are elsewhere
        for span in spans:
            if span.lane in ranks:
                ranks[span.lane] = min(ranks[span.lane], order.get(span.kind, others))
        for ruling in self.report.rulings:
            for one in ruling.violations:
                if window.begin <= self.broken_at(one) <= window.end:
                    for index in one.events:
                        who = self.report.history[index].client
                        if who in ranks and ranks[who] < 9:
                            ranks[who] = 0
        took_part = [name for name in self.clients if ranks[name] < 9]
        chosen = sorted(took_part, key=lambda name: ranks[name])[:CLIENTS_MAX]
        missing = len(took_part) - len(chosen)
        waited = all(ranks[name] == 3 for name in took_part if name not in chosen)
        which = "that only waited here" if waited else "that took part here"
        words = (
            [f"{missing} more {'client' if missing == 1 else 'clients'} {which}"] if missing else []
        )
        return [name for name in took_part if name in chosen] or self.clients[:1], words

    def _client_states(self, name: str, spans: Sequence[_Span], window: _Window) -> list[list[Any]]:
        mine = [one for one in spans if one.lane == name and one.kind in ("frozen", "down")]
        moments = {window.begin} | {at for one in mine for at in (one.begin, one.end)}
        found: list[list[Any]] = []
        for at in sorted(moment for moment in moments if window.begin <= moment <= window.end):
            now = {one.kind for one in mine if one.begin <= at < one.end}
            found.append([_time(at), {"up": "down" not in now, "frozen": "frozen" in now}])
        return found

    def _touched(self) -> tuple[dict[str, _States], dict[int, int]]:
        """The states of each register; for each operation that it refused, the highest fence."""
        touched = sorted(
            (one for one in self.operations if one.verb in TOUCHES
             and one.client in self.clients and not math.isinf(one.end)),
            key=lambda one: one.end,
        )  # fmt: skip
        found: dict[str, _States] = {}
        highest: dict[int, int] = {}
        for one in touched:
            seen = found.setdefault(one.name, [(0.0, dict(UNTOUCHED))])
            after = _after(seen[-1][1], one)
            if after != seen[-1][1]:
                seen.append((one.end, after))
            if one.outcome == "fail":
                highest[one.op] = after["mark"]
        return found, highest

    def _unguarded(self) -> dict[str, _States]:
        found: dict[str, _States] = {}
        for event in self.report.losses:
            seen = found.setdefault(event.name, [(0.0, UNTOUCHED | {"lost": 0})])
            lost: int = seen[-1][1]["lost"]
            seen.append((event.at, seen[-1][1] | {"lost": lost + 1, "by": event.client}))
        return found

    def _registers(self, window: _Window) -> dict[str, _States]:
        """The states of what the lock guards, by the names of their lanes."""
        guarded = "guarded" if self.report.losses else ""
        found: dict[str, _States] = {}
        for kind, known in ((guarded, self.registers), ("unguarded", self.unguarded)):
            names = [name for name in sorted(known) if self._is_about(name, window)]
            for name in names[:REGISTERS_MAX]:
                found[self._lane(kind, name, names)] = known[name]
        return found

    def _lane(self, kind: str, name: str, names: Sequence[str]) -> str:
        slot = name.partition("#")[2]
        if not kind:
            return self._call(name)
        return f"{kind}, slot {slot}" if slot and len(names) > 1 else kind

    def _span(self, span: _Span, window: _Window) -> dict[str, Any]:
        found: dict[str, Any] = {
            "lane": span.lane,
            "kind": span.kind,
            "from": _time(max(span.begin, window.begin)),
            "to": _time(min(span.end, window.end)),
        }
        about = [
            self._call(span.lock) if span.lock and not window.lock and self._has_many() else "",
            "" if span.slot is None else f"slot {span.slot}",
            {"read": "to read", "write": "to write"}.get(span.role, ""),
        ]
        words = ", ".join(filter(None, about))
        return (
            found | ({"fence": span.fence} if span.fence else {}) | ({"of": words} if words else {})
        )

    def _has_many(self) -> bool:
        return len({lock.name for lock in self.locks}) > 1


def _after(state: Mapping[str, Any], one: Operation) -> dict[str, Any]:
    """A register after an operation."""
    if one.outcome == "fail":
        return {**state, "refused": state["refused"] + 1, "by": one.client}
    if one.outcome != "ok":
        return dict(state)
    mark = max(state["mark"], one.fence)
    if one.verb != "write":
        return {**state, "mark": mark}
    return {**state, "mark": mark, "writes": state["writes"] + 1, "value": str(one.value),
            "by": one.client}  # fmt: skip


def _clients(history: History, servers: Sequence[str]) -> list[str]:
    """Who asked for anything, in the order of their names; an observer only reads in the end."""
    asked = {
        one.client for one in history if one.kind == "invoke" and one.verb not in TOUCHES
    }  # fmt: skip
    return sorted(asked - {*servers}, key=_natural)


def _natural(name: str) -> tuple[bool, list[tuple[int, str]]]:
    """By their numbers; those that have none, such as an auditor, come last."""
    words = re.split(r"(\d+)", name)
    return len(words) < 2, [(int(one), "") if one.isdigit() else (-1, one) for one in words]


def _cut(seen: Iterable[tuple[float, dict[str, Any]]], window: _Window) -> list[list[Any]]:
    """The states of a lane within a window, and the one in which it comes to it."""
    found: list[list[Any]] = []
    for at, state in seen:
        if at > window.end:
            break
        if at <= window.begin:
            found = [[_time(window.begin), state]]
        else:
            found.append([_time(at), state])
    return found


def _time(at: float) -> float:
    return round(at, ROUND)
