"""The parts of a history as traces, and the page that shows them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ... import __version__
from ...judge import Violation
from ...web.bundle import one_file
from ..trace import VERSION, Trace, digest_of
from .events import events
from .reading import VIOLATIONS_MAX, Reading, Span, natural, rounded
from .registers import Registers
from .report import Report
from .windows import CLIENTS_MAX, Window, windows

MESSAGES_MAX = 1500
PARTS_MAX = 200
BYTES_MAX = 3_000_000
"""The most bytes of all parts of a history together, as JSON."""


class Part(NamedTuple):
    """A stretch of a history."""

    name: str
    title: str
    trace: Trace


def parts(report: Report, bytes_max: int = BYTES_MAX, prefix: str = "") -> list[Part]:
    """Return the parts of a history, those with a violation before the rest; at least one.

    Their names begin with the prefix, which tells several histories on one page apart.
    """
    cut = _Cut(report)
    every = cut.windows
    made: list[tuple[Window, dict[str, Any]]] = []
    size = 0
    for window in every[:PARTS_MAX]:
        data = cut.part(window)
        size += len(Trace(data).json())
        if made and size > bytes_max:
            break
        made.append((window, data))
    made.sort(key=lambda one: (not one[0].about, natural("" if one[0].about else one[0].lock)))
    shown = [window for window, _ in made]
    left_out, verdict = _left_out(shown, every, bytes_max), cut.verdict(shown, prefix)
    found: list[Part] = []
    for number, (window, data) in enumerate(made, 1):
        title, about = cut.called(window), data["run"]
        about |= {"part": title, "left_out": [*about["left_out"], *left_out]}
        data |= {"verdict": verdict}
        versions = {"trace": VERSION, "fencelock": __version__}
        data |= {"digest": digest_of(data), "versions": versions}
        found.append(Part(f"{prefix}part-{number}", title, Trace(data)))
    return found


def page_of(shown: Sequence[Part]) -> str:
    """Return the page of the lab as one file that shows these parts."""
    held = [{"name": one.name, "title": one.title, "trace": one.trace.data} for one in shown]
    return one_file("lab", data={"parts": held})


def _left_out(shown: Sequence[Window], windows: Sequence[Window], bytes_max: int) -> list[str]:
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


class _Cut:
    """A history that is cut into parts."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._reading = Reading(report)
        self._registers = Registers(self._reading)
        self._events = events(self._reading, self._registers.highest)
        self.windows = windows(self._reading)

    def verdict(self, shown: Sequence[Window], prefix: str) -> list[dict[str, Any]]:
        """Return all rulings; each violation names the parts that show it."""
        return [
            {
                "checker": ruling.checker,
                "question": ruling.question,
                "outcome": ruling.outcome,
                "why": self._reading.worded(ruling.why),
                "violations": [
                    {
                        "at": rounded(self._reading.broken_at(one)),
                        "words": self._reading.worded(one.message),
                        "parts": self._parts_of(one, shown, prefix),
                    }
                    for one in sorted(ruling.violations, key=self._reading.broken_at)[
                        :VIOLATIONS_MAX
                    ]
                ],
                "more": max(0, len(ruling.violations) - VIOLATIONS_MAX),
            }
            for ruling in self._report.rulings
        ]

    def _parts_of(self, one: Violation, shown: Sequence[Window], prefix: str) -> list[str]:
        at, lock = self._reading.broken_at(one), self._reading.lock_of(one)
        return [
            f"{prefix}part-{number}"
            for number, window in enumerate(shown, 1)
            if window.lock == lock and window.begin <= at <= window.end
        ]

    def called(self, window: Window) -> str:
        """Return the title of a part."""
        lock = f"{self._reading.call(window.lock)}, " if window.lock else ""
        if window.about:
            return f"{lock}around {window.at:.2f} s: {window.about}"
        return f"{lock}{window.begin:.1f} to {window.end:.1f} s"

    def part(self, window: Window) -> dict[str, Any]:
        """Return the trace of a window, without its digest."""
        begin, end = window.begin, window.end
        spans = self._spans_of(window)
        clients, missing = self._who(window, spans)
        registers = self._registers.of(window.lock)
        servers = [name for name in self._report.servers if name in self._report.states] or [
            *self._report.servers
        ]
        shown = {*clients, *servers}
        spans = [span for span in spans if span.lane in shown]
        events = [
            {key: value for key, value in one.items() if key != "name"} | {"at": rounded(one["at"])}
            for one in self._events_of(window)
            if one["lane"] in shown and self._reading.is_about(one["name"], window.lock)
        ]
        states = {name: self._client_states(name, spans, window) for name in clients}
        states |= {name: _cut_states(self._report.states.get(name, ()), window) for name in servers}
        states |= {lane: _cut_states(seen, window) for lane, seen in registers.items()}
        lasts = [seen[-1][1] for lane, seen in states.items() if lane in registers and seen]
        fences = {span.fence for span in spans} | {
            state.get("mark", 0) for lane in registers for _, state in states[lane]
        }
        fences |= self._reading.told_of
        messages = [
            dict(one)
            for one in self._report.messages
            if begin <= one["sent"] <= end and {one["from"], one["to"]} <= shown
        ]
        if len(messages) > MESSAGES_MAX:
            missing.append(f"{len(messages) - MESSAGES_MAX} messages")
        return {
            "title": self._report.title,
            "from": rounded(begin),
            "until": rounded(end),
            "lanes": self._lanes(clients, servers, registers),
            "messages": messages[:MESSAGES_MAX],
            "states": states,
            "spans": [self._span(span, window) for span in spans],
            "events": events,
            "steps": [],
            "fences": {
                str(one): self._reading.fences[one]
                for one in sorted(fences)
                if one in self._reading.fences
            },
            "verdict": [],
            "outcome": {
                "register": "",
                "writes": sum(int(one["writes"]) for one in lasts),
                "refused": sum(int(one["refused"]) for one in lasts),
                "broken": [one.checker for one in self._report.rulings if one.violations],
            },
            "expect": None,
            "document": None,
            "run": {
                "facts": [list(fact) for fact in self._report.facts],
                "figures": list(self._report.figures),
                "conclusion": self._report.conclusion,
                "left_out": missing,
            },
        }

    def _spans_of(self, window: Window) -> list[Span]:
        """Return the spans of a lock that overlap a window."""
        everything = self._reading.spans
        last = math.inf if window.end >= self._reading.end else window.end
        near = everything[: bisect_left(everything, last, key=lambda span: span.begin)]
        return [
            span
            for span in near
            if span.end > window.begin and self._reading.is_about(span.lock, window.lock)
        ]

    def _lanes(
        self, clients: Sequence[str], servers: Iterable[str], registers: Iterable[str]
    ) -> list[dict[str, Any]]:
        """Return the lanes: a client has the same color in all parts, where there are few."""
        few = len(self._reading.clients) <= CLIENTS_MAX
        lanes: list[dict[str, Any]] = [
            {"name": name, "kind": "client", "client": "process",
             "hue": self._reading.clients.index(name) if few else number}
            for number, name in enumerate(clients)
        ]  # fmt: skip
        lanes += [{"name": name, "kind": "server"} for name in servers]
        lanes += [{"name": lane, "kind": "resource"} for lane in registers]
        return lanes

    def _events_of(self, window: Window) -> list[dict[str, Any]]:
        """Return the events from its beginning until before its end, where the next may begin."""
        places = [
            bisect_left(self._events, at, key=lambda event: event["at"])
            for at in (window.begin, window.end)
        ]
        if window.end >= self._reading.end:
            places[1] = len(self._events)
        return self._events[places[0] : places[1]]

    def _who(self, window: Window, spans: Sequence[Span]) -> tuple[list[str], list[str]]:
        """Return the clients of a part, and a text about those that are left out."""
        ranks = dict.fromkeys(self._reading.clients, 9)
        order = {"believes wrongly": 1, "holds": 2, "waits": 3}
        others = (
            4 if len(self._reading.clients) <= CLIENTS_MAX else 9
        )  # a client that only had faults here
        for span in spans:
            if span.lane in ranks:
                ranks[span.lane] = min(ranks[span.lane], order.get(span.kind, others))
        for ruling in self._report.rulings:
            for one in ruling.violations:
                if window.begin <= self._reading.broken_at(one) <= window.end:
                    for index in one.events:
                        who = self._report.history[index].client
                        if who in ranks and ranks[who] < 9:
                            ranks[who] = 0
        took_part = [name for name in self._reading.clients if ranks[name] < 9]
        chosen = sorted(took_part, key=lambda name: ranks[name])[:CLIENTS_MAX]
        missing = len(took_part) - len(chosen)
        waited = all(ranks[name] == 3 for name in took_part if name not in chosen)
        which = "that only waited here" if waited else "that took part here"
        words = (
            [f"{missing} more {'client' if missing == 1 else 'clients'} {which}"] if missing else []
        )
        return [name for name in took_part if name in chosen] or self._reading.clients[:1], words

    def _client_states(self, name: str, spans: Sequence[Span], window: Window) -> list[list[Any]]:
        mine = [one for one in spans if one.lane == name and one.kind in ("frozen", "down")]
        moments = {window.begin} | {at for one in mine for at in (one.begin, one.end)}
        found: list[list[Any]] = []
        for at in sorted(moment for moment in moments if window.begin <= moment <= window.end):
            now = {one.kind for one in mine if one.begin <= at < one.end}
            found.append([rounded(at), {"up": "down" not in now, "frozen": "frozen" in now}])
        return found

    def _span(self, span: Span, window: Window) -> dict[str, Any]:
        found: dict[str, Any] = {
            "lane": span.lane,
            "kind": span.kind,
            "from": rounded(max(span.begin, window.begin)),
            "to": rounded(min(span.end, window.end)),
        }
        about = [
            self._reading.call(span.lock)
            if span.lock and not window.lock and self._reading.has_many()
            else "",
            "" if span.slot is None else f"slot {span.slot}",
            {"read": "to read", "write": "to write"}.get(span.role, ""),
        ]
        words = ", ".join(filter(None, about))
        return (
            found | ({"fence": span.fence} if span.fence else {}) | ({"of": words} if words else {})
        )


def _cut_states(seen: Iterable[tuple[float, dict[str, Any]]], window: Window) -> list[list[Any]]:
    """Return the states of a lane within a window, with its state at the beginning."""
    found: list[list[Any]] = []
    for at, state in seen:
        if at > window.end:
            break
        if at <= window.begin:
            found = [[rounded(window.begin), state]]
        else:
            found.append([rounded(at), state])
    return found
