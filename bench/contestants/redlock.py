"""Fencelock over a majority of five Redis servers."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.ours import Ours, OursAio
from bench.redlock_nodes import OnNodes


class RedlockThreads(OnNodes, Ours):
    """From threads."""

    name = "fencelock redlock"
    works = frozenset({"pair", "threads"})
    yardstick = frozenset({"pair"})
    needs = ("redis", "hiredis")
    targets: ClassVar = {"pair": (Target("wall_us", "at most", 1 / 3, "redlock-ng"),)}

    def url(self) -> str:
        return self.place


class RedlockHung(RedlockThreads):
    """One of the five does not answer."""

    name = "fencelock redlock, one hung"
    works = frozenset({"pair"})
    yardstick = frozenset()
    hung = True
    targets: ClassVar = {"pair": (Target("wall_us", "at most", 2.0, "fencelock redlock"),)}


class RedlockUnfenced(RedlockThreads):
    """Without fences."""

    name = "fencelock redlock, fence=no"
    works = frozenset({"pair"})
    yardstick = frozenset()
    targets: ClassVar = {}

    def url(self) -> str:
        return f"{self.place}?fence=no"


class RedlockAio(OnNodes, OursAio):
    """From asyncio."""

    name = "fencelock redlock asyncio"
    works = frozenset({"pair"})
    needs = RedlockThreads.needs

    def url(self) -> str:
        return self.place
