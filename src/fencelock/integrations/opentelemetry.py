"""Spans for OpenTelemetry: how long locks were waited for and held, and which hold was in the way.

    from fencelock.integrations.opentelemetry import trace

    stop = trace()

Each acquire is a span ``acquire {group}``, each hold a span ``hold {group}``, below the span that
is current where the lock is acquired. The context of the acquire travels in the meta of the holder
as ``traceparent``: so a span that had to wait has a link to the one that was in its way, in
whichever process that is.

Only the API of OpenTelemetry is used: where the spans go is decided by the program.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import cast

from .. import observe
from ..errors import Misconfigured
from ..observe import Event

try:
    from opentelemetry import context as otel_context
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        Tracer,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:
    raise Misconfigured(
        'opentelemetry is not installed: pip install "fencelock[opentelemetry]"'
    ) from None

__all__ = ["trace"]

TRACEPARENT = "traceparent"
ENDS = {"released", "release_failed", "lost", "abandoned", "handed_over"}
GROUPS_MAX, OTHER = 200, "other"
HOLDS_MAX = 100_000  # spans of holds that are not over
_PROPAGATOR = TraceContextTextMapPropagator()


def trace(tracer_provider: TracerProvider | None = None) -> Callable[[], None]:
    """Make spans from now on; call the result to stop. There can be one tracer at a time."""
    if observe.context is not None:
        raise Misconfigured("spans are made already: end that first")
    spans = _Spans(get_tracer("fencelock", tracer_provider=tracer_provider))
    observe.context = spans.begin
    unsubscribe = observe.subscribe(spans.see)

    def stop() -> None:
        if observe.context == spans.begin:
            observe.context = None
        unsubscribe()

    return stop


class _Spans:
    """The spans of acquires that are under way, and of holds."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._groups: set[str] = set()
        self._attempt: ContextVar[Span | None] = ContextVar("fencelock_acquire", default=None)
        self._holds: dict[tuple[object, ...], Span] = {}

    def begin(self, group: str) -> Mapping[str, str]:
        """Begin the span of an acquire; return the meta by which other spans link to it."""
        span = self._tracer.start_span(f"acquire {self._bounded(group)}", kind=SpanKind.CLIENT)
        self._attempt.set(span)
        words: dict[str, str] = {}
        _PROPAGATOR.inject(words, set_span_in_context(span, otel_context.Context()))
        return {TRACEPARENT: words[TRACEPARENT]} if TRACEPARENT in words else {}

    def see(self, event: Event) -> None:
        """Begin and end the spans that an event is about."""
        if event.kind == "acquired":
            parent = self._end_attempt(event, "granted")
            self._hold(event, parent)
        elif event.kind == "refused":
            self._end_attempt(event, event.outcome)
        elif event.kind == "taken_over":
            self._hold(event, None)
        elif event.kind in ENDS:
            self._end_hold(event)

    def _end_attempt(self, event: Event, outcome: str) -> Span:
        span = self._attempt.get()
        self._attempt.set(None)
        if span is None:  # an acquire of several locks, or of a client that was never opened
            began = time.time_ns() - int((event.seconds or 0.0) * 1e9)
            name = f"acquire {self._bounded(event.group)}"
            span = self._tracer.start_span(name, kind=SpanKind.CLIENT, start_time=began)
        span.set_attributes(
            {
                "fencelock.engine": event.engine,
                "fencelock.group": self._bounded(event.group),
                "fencelock.role": event.role,
                "fencelock.outcome": outcome,
                "fencelock.waited": event.waited,
            }
        )
        blocker = _context_of(event.blocker)
        if blocker is not None:
            span.add_link(blocker, {"fencelock.link": "blocked by"})
        if outcome not in ("granted", "busy"):
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end()
        return span

    def _hold(self, event: Event, acquire: Span | None) -> None:
        links = [] if acquire is None else [Link(acquire.get_span_context())]
        span = self._tracer.start_span(f"hold {self._bounded(event.group)}", links=links)
        if event.fence is not None:
            span.set_attribute("fencelock.fence", event.fence)
        span.set_attributes(
            {
                "fencelock.engine": event.engine,
                "fencelock.group": self._bounded(event.group),
                "fencelock.role": event.role,
            }
        )
        if len(self._holds) < HOLDS_MAX:
            self._holds[_key(event)] = span

    def _end_hold(self, event: Event) -> None:
        span = self._holds.pop(_key(event), None)
        if span is None:
            return
        span.set_attribute("fencelock.end", event.kind)
        if event.kind == "lost":
            span.set_attribute("fencelock.loss", event.outcome)
            span.set_status(Status(StatusCode.ERROR, f"lost: {event.outcome}"))
        span.end()

    def _bounded(self, group: str) -> str:
        if group not in self._groups:
            if len(self._groups) >= GROUPS_MAX:
                return OTHER
            self._groups.add(group)
        return group


def _key(event: Event) -> tuple[object, ...]:
    return event.engine, event.name, event.slot, event.fence


def _context_of(blocker: str) -> SpanContext | None:
    """Return the span in a holder's meta, or None: another program may have written anything."""
    try:
        words: object = json.loads(blocker) if blocker else None
    except ValueError:
        return None
    if not isinstance(words, dict):
        return None
    carrier = cast("Mapping[str, object]", words).get(TRACEPARENT)
    if not isinstance(carrier, str):
        return None
    found = _PROPAGATOR.extract({TRACEPARENT: carrier}, otel_context.Context())
    span = get_current_span(found).get_span_context()
    return span if span.is_valid else None
