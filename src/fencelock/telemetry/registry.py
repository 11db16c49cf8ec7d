"""The registry: subscribes to events and counts.

* A subscriber runs where an event is emitted: in a thread that acquires, in a signal handler, in a
  destructor. So it only appends to a queue, which no exception and no lock can disturb. The events
  in the queue are counted when the registry is read, or when the queue has grown long.
* A hold is counted from its ``acquired`` to the first event that ends it. One that began before the
  registry was started is not counted as held, nor subtracted.
* Labels are bounded: at most ``GROUPS_MAX`` groups, then ``other``.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from .. import observe
from ..observe import Event
from . import metrics
from .metrics import METRICS, Family, Sample
from .text import render

GROUPS_MAX = 200
OTHER = "other"
QUEUE_MAX = 512  # events that wait to be counted
DOWN = {"Misconfigured", "OutcomeUnknown", "Unavailable"}
"""Errors of an engine that has not served a call."""


class _Histogram:
    """How many values fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, name: str) -> None:
        self.bounds = METRICS[name].buckets
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def sample(self, *labels: str) -> Sample:
        return Sample(labels, self.sum, tuple(self.counts))


class _Group:
    """The counts of one group on one engine."""

    __slots__ = ("granted", "held", "hold", "lost", "refused", "wait", "waiting")

    def __init__(self) -> None:
        self.granted = self.held = self.waiting = 0
        self.refused: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.wait = _Histogram(metrics.WAIT_SECONDS)
        self.hold = _Histogram(metrics.HOLD_SECONDS)


class _Engine:
    """The counts of one engine."""

    def __init__(self) -> None:
        self.renewals = 0
        self.slack = _Histogram(metrics.RENEWAL_SLACK)
        self.verbs: dict[str, _Histogram] = {}
        self.failing: set[str] = set()
        """Verbs that could not be served, since the engine last answered a call."""

    def time(self, verb: str, seconds: float) -> None:
        histogram = self.verbs.get(verb)
        if histogram is None:
            histogram = self.verbs[verb] = _Histogram(metrics.ENGINE_SECONDS)
        histogram.add(seconds)


class Registry:
    """Counts what happens in this process. There can be several registries at a time."""

    def __init__(self) -> None:
        self._queue: deque[Event] = deque()
        self._stop: Callable[[], None] | None = None
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_resetting(weakref.ref(self)))

    def _reset(self) -> None:
        """Reset all counts: in a forked child nothing has happened, and nothing is held."""
        self._mutex = threading.Lock()
        self._queue.clear()
        self._names: set[str] = set()
        self._groups: dict[tuple[str, str], _Group] = {}
        self._engines: dict[str, _Engine] = {}
        self._guards: Counter[tuple[str, str]] = Counter()
        self._calls: dict[tuple[str, str], _Histogram] = {}
        self._holds: dict[tuple[object, ...], int] = {}
        """How often each grant is held: twice where two stores have drawn the same fence."""

    # Events.

    def start(self) -> Self:
        """Count from now on."""
        if self._stop is None:
            self._stop = observe.subscribe(self.add, calls="rest")
        return self

    def stop(self) -> None:
        """Stop counting; what was counted stays."""
        if self._stop is not None:
            self._stop()
            self._stop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add(self, event: Event) -> None:
        """Queue an event to be counted."""
        queue = self._queue
        queue.append(event)
        if len(queue) > QUEUE_MAX and self._mutex.acquire(blocking=False):
            try:
                self._count_all()
            finally:
                self._mutex.release()

    def _count_all(self) -> None:
        queue, methods = self._queue, _METHODS
        for _ in range(len(queue)):
            event = queue.popleft()
            method = methods.get(event[0])
            if method is not None:
                method(self, event)

    def _acquired(self, event: Event) -> None:
        group = self._groups.get((event.engine, event.group)) or self._group(event)
        group.granted += 1
        group.wait.add(event.seconds or 0.0)
        if event.waited and group.waiting:
            group.waiting -= 1
        self._begin(event, group)
        if event.call is not None:
            self._answered(self._engine(event), "acquire", event.call)

    def _taken_over(self, event: Event) -> None:
        self._begin(event, self._group(event))

    def _begin(self, event: Event, group: _Group) -> None:
        key = (event.engine, event.name, event.slot, event.fence)
        self._holds[key] = self._holds.get(key, 0) + 1
        group.held += 1

    def _refused(self, event: Event) -> None:
        group = self._group(event)
        group.refused[event.outcome] += 1
        if event.waited and group.waiting:
            group.waiting -= 1

    def _waiting(self, event: Event) -> None:
        self._group(event).waiting += 1

    def _ended(self, event: Event) -> None:
        """Count the end of a hold. It ends once: an event after its loss ends nothing more."""
        group = self._groups.get((event.engine, event.group)) or self._group(event)
        if event.kind == "lost":
            group.lost[event.outcome] += 1
        if event.call is not None:
            self._answered(self._engine(event), "release", event.call)
        key = (event.engine, event.name, event.slot, event.fence)
        count = self._holds.pop(key, 0)
        if count == 0:
            return
        if count > 1:
            self._holds[key] = count - 1
        group.held -= 1
        if event.seconds is not None:
            group.hold.add(event.seconds)

    def _renewed(self, event: Event) -> None:
        engine = self._engine(event)
        engine.renewals += 1
        if event.slack is not None:
            engine.slack.add(event.slack)

    def _stale(self, event: Event) -> None:
        self._guards[event.guard, self._bounded(event.group)] += 1

    def _called(self, event: Event) -> None:
        engine, verb, seconds = self._engine(event), event.verb, event.seconds or 0.0
        if not event.outcome:
            self._answered(engine, verb, seconds)
            return
        engine.time(verb, seconds)
        if event.outcome in DOWN:
            engine.failing.add(verb)

    def _answered(self, engine: _Engine, verb: str, seconds: float) -> None:
        engine.time(verb, seconds)
        if engine.failing:
            engine.failing.clear()

    def _served(self, event: Event) -> None:
        labels = (event.verb, event.outcome)
        if labels not in self._calls:
            self._calls[labels] = _Histogram(metrics.SERVICE_SECONDS)
        self._calls[labels].add(event.seconds or 0.0)

    def _engine(self, event: Event) -> _Engine:
        engine = self._engines.get(event.engine)
        if engine is None:
            engine = self._engines[event.engine] = _Engine()
        return engine

    def _group(self, event: Event) -> _Group:
        key = (event.engine, self._bounded(event.group))
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        return group

    def _bounded(self, group: str) -> str:
        names = self._names
        if group not in names:
            if len(names) >= GROUPS_MAX:
                return OTHER
            names.add(group)
        return group

    # Readers.

    def collect(self) -> list[Family]:
        """Return all metrics, with what was counted of each until now."""
        with self._mutex:
            self._count_all()
            return [
                Family(name, metric, tuple(sorted(_SAMPLES[name](self))))
                for name, metric in METRICS.items()
            ]

    def _acquires(self) -> Iterator[Sample]:
        for labels, group in self._groups.items():
            for outcome, count in {"granted": group.granted, **group.refused}.items():
                yield Sample((*labels, outcome), count)

    def _of_groups(self, what: Callable[[_Group], float | _Histogram]) -> Iterator[Sample]:
        for labels, group in self._groups.items():
            value = what(group)
            if isinstance(value, _Histogram):
                yield value.sample(*labels)
            else:
                yield Sample(labels, value)

    def _losses(self) -> Iterator[Sample]:
        for labels, group in self._groups.items():
            for loss, count in group.lost.items():
                yield Sample((*labels, loss), count)

    def _verbs(self) -> Iterator[Sample]:
        for name, engine in self._engines.items():
            for verb, histogram in engine.verbs.items():
                yield histogram.sample(name, verb)

    def _ups(self) -> Iterator[Sample]:
        for name, engine in self._engines.items():
            for verb in engine.verbs:
                yield Sample((name, verb), float(verb not in engine.failing))

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return render(self.collect())

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a counter or a gauge over all samples with these labels; of a
        histogram, how many values were counted."""
        metric = METRICS[name]
        total = 0.0
        for family in self.collect():
            for sample in family.samples if family.name == name else ():
                found = dict(zip(metric.labels, sample.labels, strict=True))
                if labels.items() <= found.items():
                    total += sum(sample.counts) if metric.kind == "histogram" else sample.value
        return total


# pyright: reportPrivateUsage=false
_METHODS: dict[str, Callable[[Registry, Event], None]] = {
    "acquired": Registry._acquired,
    "taken_over": Registry._taken_over,
    "refused": Registry._refused,
    "waiting": Registry._waiting,
    "released": Registry._ended,
    "release_failed": Registry._ended,
    "lost": Registry._ended,
    "abandoned": Registry._ended,
    "handed_over": Registry._ended,
    "renewed": Registry._renewed,
    "stale": Registry._stale,
    "engine": Registry._called,
    "call": Registry._served,
}
_SAMPLES: dict[str, Callable[[Registry], Iterable[Sample]]] = {
    metrics.ACQUIRE: Registry._acquires,
    metrics.WAIT_SECONDS: lambda r: r._of_groups(lambda group: group.wait),
    metrics.HOLD_SECONDS: lambda r: r._of_groups(lambda group: group.hold),
    metrics.HELD: lambda r: r._of_groups(lambda group: group.held),
    metrics.WAITING: lambda r: r._of_groups(lambda group: group.waiting),
    metrics.RENEWALS: lambda r: [Sample((n,), e.renewals) for n, e in r._engines.items()],
    metrics.RENEWAL_SLACK: lambda r: [e.slack.sample(n) for n, e in r._engines.items()],
    metrics.LOST: Registry._losses,
    metrics.FENCE_REFUSED: lambda r: [Sample(k, n) for k, n in r._guards.items()],
    metrics.ENGINE_SECONDS: Registry._verbs,
    metrics.ENGINE_UP: Registry._ups,
    metrics.SERVICE_REQUESTS: lambda r: [Sample(k, sum(h.counts)) for k, h in r._calls.items()],
    metrics.SERVICE_SECONDS: lambda r: [h.sample(*k) for k, h in r._calls.items()],
}


def _resetting(reference: weakref.ref[Registry]) -> Callable[[], None]:
    def reset() -> None:
        registry = reference()
        if registry is not None:
            registry._reset()

    return reset
