"""Fencelock within one process: what the layers above an engine cost."""

from __future__ import annotations

from bench.contestant import Target
from bench.ours import Ours, OursAio

TARGETS = {"telemetry": (Target("added_us", "at most", 3.0),)}


class Memory(Ours):
    """From threads."""

    name = "fencelock memory"
    works = frozenset({"pair", "renewals", "telemetry"})
    targets = TARGETS

    def url(self) -> str:
        return "memory://bench"


class MemoryAio(OursAio):
    """From asyncio."""

    name = "fencelock memory asyncio"
    works = frozenset({"pair", "telemetry"})
    targets = TARGETS

    def url(self) -> str:
        return "memory://bench-aio"
