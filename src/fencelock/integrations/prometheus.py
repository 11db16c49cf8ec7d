"""Metrics for ``prometheus_client``, beside those that a program has there already.

    from fencelock.integrations.prometheus import register

    register()

A program that has no other metrics needs no package: see ``fencelock.telemetry``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from ..errors import Misconfigured
from ..telemetry import Family, Registry
from ..telemetry.metrics import Sample

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.core import Metric as Shown
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise Misconfigured(
        'prometheus_client is not installed: pip install "fencelock[prometheus]"'
    ) from None

__all__ = ["FencelockCollector", "register"]


class FencelockCollector(Collector):
    """A collector that exports what a registry of ours has counted to ``prometheus_client``."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def collect(self) -> Iterable[Shown]:
        """Return all metrics with their present values."""
        return [_shown(family) for family in self.registry.collect()]

    def describe(self) -> Iterable[Shown]:
        """Return all metrics without samples: other collectors may not use their names."""
        return [_shown(family._replace(samples=())) for family in self.registry.collect()]


def register(into: CollectorRegistry | None = None) -> FencelockCollector:
    """Count from now on, and export that to a registry of ``prometheus_client``, or to its default.

    To stop, call ``unregister(collector)`` there and ``collector.registry.stop()``.
    """
    collector = FencelockCollector(Registry())
    (REGISTRY if into is None else into).register(collector)
    collector.registry.start()
    return collector


def _shown(family: Family) -> Shown:
    name, metric, samples = family
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(name, metric.help, labels=metric.labels)
        for sample in samples:
            histogram.add_metric(sample.labels, list(_buckets(family, sample)), sample.value)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    values = kind(name, metric.help, labels=metric.labels)
    for sample in samples:
        values.add_metric(sample.labels, sample.value)
    return values


def _buckets(family: Family, sample: Sample) -> Iterator[tuple[str, float]]:
    bounds = [*(str(float(bound)) for bound in family.metric.buckets), "+Inf"]
    yield from zip(bounds, accumulate(sample.counts), strict=True)
