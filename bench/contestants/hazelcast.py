"""Fencelock over Hazelcast."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.hazelcast_server import OnHazelcast
from bench.ours import Ours, OursAio

WORKS = frozenset({"pair", "handoff", "wakeup", "renewals"})
TARGETS = {
    "pair": (Target("p50_us", "at most", 1.5, versus="hazelcast FencedLock"),),
    "handoff": (Target("overlaps", "at most", 0.0),),
    "renewals": (Target("lost", "at most", 0.0),),
}


class HazelcastThreads(OnHazelcast, Ours):
    """From threads."""

    name = "fencelock hazelcast"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return f"hazelcast://{self.place}"


class HazelcastAio(OnHazelcast, OursAio):
    """From asyncio."""

    name = "fencelock hazelcast asyncio"
    works = WORKS
    targets: ClassVar = {work: TARGETS[work] for work in ("handoff", "renewals")}

    def url(self) -> str:
        return f"hazelcast://{self.place}"
