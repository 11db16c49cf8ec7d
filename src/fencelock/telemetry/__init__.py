"""Telemetry: a registry that counts events, and the text in which Prometheus reads it.

    registry = fencelock.telemetry.Registry().start()
    print(registry.text())

It needs no package. ``fencelock.integrations`` has a collector for ``prometheus_client`` and spans
for OpenTelemetry. No name of a lock is a label: names are put into groups.
"""

from __future__ import annotations

from .metrics import METRICS, Family, Metric, Sample
from .registry import Registry

__all__ = ["METRICS", "Family", "Metric", "Registry", "Sample"]
