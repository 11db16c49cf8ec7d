"""The history of a run as a list of events, for simulated and for real processes alike.

An operation begins with ``invoke`` and ends with ``ok``, ``fail`` (it surely did nothing) or
``unknown`` (it may yet happen). Everything else that an observer saw is a ``note``. All times are
on one clock: the observer's. This module judges nothing and knows no engine.

One name may denote a mutex, a semaphore and a read/write lock, which have nothing to do with each
other: the role of an operation says which. The term of a leader is a tenure of the mutex of its
name, and its epoch is the fence. Work that is done once in a window of time is an operation itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

ENDS = ("ok", "fail", "unknown")


class Event(NamedTuple):
    """One thing that an observer saw."""

    at: float
    """Seconds since the beginning, on the observer's clock."""
    client: str
    """The client that did it or that it happened to; a name that invokes nothing stands for a part
    of the engine, and a fault of that disturbs every client."""
    kind: str
    """invoke, ok, fail, unknown or note."""
    verb: str
    """Of an operation: acquire, renew, release; downgrade (a writer becomes a reader); look (which
    leader there is); run (work for a window, or under a key, which is then its name); meet (a party
    at a barrier); count and await (a latch); enter, read, write (a register). Of a note: pause,
    resume, crash, restart, lost, told, partition, heal, clock, queued, withdrawn, expired; cancel
    (the caller gave the operation up); kept (the engine keeps the lock for the client at that
    moment); freed (the engine has just given the lock up before its time was over)."""
    op: int = 0
    """The number that ties an invocation to its end; a note may carry that of its operation."""
    name: str = ""
    """The lock or the resource."""
    fence: int = 0
    """The fence, if known; of a look, the epoch of the leader that was seen; of a meeting, the
    order in which parties came."""
    value: int | None = None
    """What was read or written; of a run, the number of its window; of a count, how many are
    missing after it. Of an acquire: a number that the acquires of several locks in one call
    share."""
    detail: str = ""
    """Text for people. An acquire that failed because the lock is taken says "busy", or "not in
    time", or nothing; a release that came too late says "it was no longer ours", or nothing. Any
    other text means that it failed for another reason. A run that failed because there was nothing
    to do says "skipped"; one whose work was begun and failed says something else. A count says who
    counts, if that has a name."""
    ttl: float = 0.0
    """Of an acquire that succeeded: how many seconds the lease lasts, if known."""
    deadline: float = 0.0
    """Of an invocation: the moment by which its caller wants it to have ended; 0 for none."""
    role: str = ""
    """Of an invocation: the role that is requested or held: semaphore, read or write; leader for a
    term of an election; empty for a mutex, and for an operation on a register under one."""
    units: int = 0
    """Of an acquire: how many units of the name it takes; 0 for all of them, as a mutex does."""
    limit: int = 0
    """Of an acquire: how many units there are; 0 for one. Of a meeting, how many parties it takes;
    of a count and of an await, how many counts."""
    slot: int | None = None
    """Of an acquire that succeeded: the slot of a semaphore that it got."""
    until: float = 0.0
    """Of an acquire that succeeded: the moment from which on the lease may be over, if it is not
    renewed. The grant said so: from then on its holder has no lock."""


# A run makes many events: to create one as a plain tuple takes half the time.
_make_event: Callable[[type[Event], tuple[object, ...]], Event] = cast("Any", tuple).__new__


class Operation(NamedTuple):
    """An invocation and its end, as positions in the history."""

    op: int
    client: str
    verb: str
    name: str
    fence: int
    value: int | None
    begin: float
    end: float
    """When it ended; infinite if the outcome is unknown or no end was seen."""
    outcome: str
    """ok, fail or unknown; open if no end was seen."""
    events: tuple[int, ...]
    seen: float = math.inf
    """When its end was seen, even if the outcome is unknown."""
    ttl: float = 0.0
    deadline: float = math.inf
    """The caller's deadline, or when the caller cancelled it if that was earlier."""
    detail: str = ""
    role: str = ""
    units: int = 1
    limit: int = 1
    slot: int | None = None
    until: float = math.inf
    """When the lease ends if it is not renewed."""


class Violation(NamedTuple):
    """A promise that was broken, with the events that show it."""

    checker: str
    message: str
    events: tuple[int, ...] = ()
    at: float | None = None
    """Since when it is broken, if not since the last of its events."""


def _no_clock() -> float:
    raise ValueError("this history has no clock: append events with their own times")


class History:
    """The events of one run, in the order of their time."""

    def __init__(self, events: Iterable[Event] = (), clock: Callable[[], float] | None = None):
        self.events = list(events)
        self.now = clock or _no_clock
        """Returns the observer's time; raises ValueError if no clock was given."""
        last = max((event.op for event in self.events), default=0)
        self._ops = count(last + 1)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __getitem__(self, index: int) -> Event:
        return self.events[index]

    def append(self, event: Event) -> None:
        """Add an event that is not earlier than the last one."""
        self.events.append(event)

    def invoke(
        self,
        client: str,
        verb: str,
        name: str,
        fence: int = 0,
        value: int | None = None,
        deadline: float = 0.0,
        role: str = "",
        units: int = 0,
        limit: int = 0,
    ) -> int:
        """Record that an operation begins now, and return its number."""
        op, now = next(self._ops), self.now()
        words = (now, client, "invoke", verb, op, name, fence, value, "", 0.0, deadline)
        self.events.append(_make_event(Event, (*words, role, units, limit, None, 0.0)))
        return op

    def end(
        self,
        kind: str,
        client: str,
        verb: str,
        op: int,
        name: str,
        fence: int = 0,
        value: int | None = None,
        detail: str = "",
        ttl: float = 0.0,
        slot: int | None = None,
    ) -> None:
        """Record that an operation ends now, and how."""
        words = (self.now(), client, kind, verb, op, name, fence, value, detail, ttl, 0.0)
        self.events.append(_make_event(Event, (*words, "", 0, 0, slot, 0.0)))

    def note(
        self, client: str, verb: str, name: str = "", fence: int = 0, detail: str = "", op: int = 0
    ) -> None:
        """Record a note of the present moment."""
        self.events.append(Event(self.now(), client, "note", verb, op, name, fence, None, detail))

    @property
    def ends_at(self) -> float:
        """The time of the last event; 0 without one."""
        return self.events[-1].at if self.events else 0.0

    def operations(self, *verbs: str) -> list[Operation]:
        """Return all operations of these verbs, or of any, in the order of their invocations."""
        begun: dict[int, int] = {}
        ended: dict[int, int] = {}
        cancelled: dict[int, float] = {}
        for index, event in enumerate(self.events):
            if event.kind == "invoke":
                begun[event.op] = index
            elif event.kind in ENDS and event.op in begun:
                ended.setdefault(event.op, index)
            elif event.verb == "cancel" and event.op in begun:
                cancelled.setdefault(event.op, event.at)
        return [
            self._operation(index, ended.get(op), cancelled.get(op, math.inf))
            for op, index in begun.items()
            if not verbs or self.events[index].verb in verbs
        ]

    def _operation(self, index: int, end_index: int | None, cancelled_at: float) -> Operation:
        begin = self.events[index]
        if end_index is None:
            end = begin._replace(at=math.inf, kind="open")
        else:
            end = self.events[end_index]
        return Operation(
            begin.op,
            begin.client,
            begin.verb,
            begin.name,
            end.fence or begin.fence,
            begin.value if end.value is None else end.value,
            begin.at,
            math.inf if end.kind == "unknown" else end.at,
            end.kind,
            (index,) if end_index is None else (index, end_index),
            end.at,
            end.ttl,
            min(begin.deadline or math.inf, cancelled_at),
            end.detail,
            begin.role,
            begin.units or begin.limit or 1,
            begin.limit or 1,
            end.slot,
            end.until or math.inf,
        )

    def save(self, path: str | Path) -> None:
        """Write one JSON object per line; fields with their default value are left out."""
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(_line(event) + "\n" for event in self.events)

    @classmethod
    def load(cls, path: str | Path) -> History:
        """Read a file that ``save`` wrote."""
        with open(path, encoding="utf-8") as file:
            return cls(Event(**json.loads(line)) for line in file if line.strip())

    @classmethod
    def merged(cls, histories: Iterable[History]) -> History:
        """Merge the histories of several observers that share one clock.

        Operations are renumbered, since each observer counts from 1.
        """
        numbers = count(1)
        events: list[Event] = []
        for history in histories:
            new: dict[int, int] = {0: 0}
            for event in history:
                if event.op not in new:
                    new[event.op] = next(numbers)
                events.append(event._replace(op=new[event.op]))
        return cls(sorted(events, key=lambda event: event.at))


def _line(event: Event) -> str:
    defaults = Event._field_defaults
    fields: dict[str, Any] = {
        field: value
        for field, value in event._asdict().items()
        if field not in defaults or value != defaults[field]
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
