"""The metrics: their names, kinds, labels and buckets. All that reads or shows them is checked
against this table.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# Seconds. A free lock takes a millisecond, a queue may take minutes, a nightly job holds for hours.
WAIT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
HOLD = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400)
SLACK = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 900, 3600)
CALL = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)

OUTCOMES = ("granted", "busy", "timeout", "unavailable", "unknown", "cancelled")


class Metric(NamedTuple):
    """One metric."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


ACQUIRE = "fencelock_acquire_total"
WAIT_SECONDS = "fencelock_acquire_wait_seconds"
HOLD_SECONDS = "fencelock_hold_seconds"
HELD = "fencelock_held"
WAITING = "fencelock_waiting"
RENEWALS = "fencelock_renewals_total"
RENEWAL_SLACK = "fencelock_renewal_slack_seconds"
LOST = "fencelock_lease_lost_total"
FENCE_REFUSED = "fencelock_fence_refused_total"
ENGINE_SECONDS = "fencelock_engine_seconds"
ENGINE_UP = "fencelock_engine_up"
SERVICE_REQUESTS = "fencelock_service_requests_total"
SERVICE_SECONDS = "fencelock_service_seconds"

METRICS: dict[str, Metric] = {
    ACQUIRE: Metric(
        "counter", "Attempts to acquire, by what became of them", ("engine", "group", "outcome")
    ),
    WAIT_SECONDS: Metric(
        "histogram", "How long granted acquires took, waiting included", ("engine", "group"), WAIT
    ),
    HOLD_SECONDS: Metric(
        "histogram", "How long locks were held, renewals included", ("engine", "group"), HOLD
    ),
    HELD: Metric("gauge", "Leases held now", ("engine", "group")),
    WAITING: Metric("gauge", "Attempts that wait in a queue now", ("engine", "group")),
    RENEWALS: Metric("counter", "Renewals that landed", ("engine",)),
    RENEWAL_SLACK: Metric(
        "histogram", "What was left of a lease when its renewal landed", ("engine",), SLACK
    ),
    LOST: Metric(
        "counter", "Leases that were lost while somebody held them", ("engine", "group", "loss")
    ),
    FENCE_REFUSED: Metric(
        "counter", "Operations that a guard refused because of an old fence", ("guard", "group")
    ),
    ENGINE_SECONDS: Metric(
        "histogram", "How long calls of the engine took", ("engine", "verb"), CALL
    ),
    ENGINE_UP: Metric(
        "gauge",
        "0 since a call of this verb could not be served, 1 once the engine has answered any",
        ("engine", "verb"),
    ),
    SERVICE_REQUESTS: Metric("counter", "Calls of the lock service", ("call", "status")),
    SERVICE_SECONDS: Metric(
        "histogram", "How long calls of the lock service took", ("call", "status"), CALL
    ),
}


class Sample(NamedTuple):
    """The value of a metric for one set of labels."""

    labels: tuple[str, ...]
    value: float
    """The value of a counter or a gauge; the sum of a histogram."""
    counts: tuple[int, ...] = ()
    """Of a histogram: how many values were in each bucket, and above the last."""


class Family(NamedTuple):
    """One metric with all its samples."""

    name: str
    metric: Metric
    samples: tuple[Sample, ...]
