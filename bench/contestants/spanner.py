"""Fencelock over Spanner's emulator."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.ours import Ours, OursAio
from bench.spanner_server import OnSpanner

WORKS = frozenset({"pair", "handoff", "wakeup"})
TARGETS = {"handoff": (Target("overlaps", "at most", 0.0),)}


class SpannerThreads(OnSpanner, Ours):
    """From threads."""

    name = "fencelock spanner"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return self.place


class SpannerAio(OnSpanner, OursAio):
    """From asyncio."""

    name = "fencelock spanner asyncio"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return self.place
