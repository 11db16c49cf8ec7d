"""Fencelock over Consul."""

from __future__ import annotations

from typing import ClassVar

from bench.consul_server import OnConsul
from bench.contestant import Target
from bench.ours import Ours, OursAio

WORKS = frozenset({"pair", "handoff", "wakeup", "renewals"})
TARGETS = {
    "handoff": (Target("overlaps", "at most", 0.0),),
    "renewals": (Target("lost", "at most", 0.0),),
}


class ConsulThreads(OnConsul, Ours):
    """From threads."""

    name = "fencelock consul"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return f"consul://{self.place}"


class ConsulAio(OnConsul, OursAio):
    """From asyncio."""

    name = "fencelock consul asyncio"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return f"consul://{self.place}"
