"""Fencelock over ZooKeeper."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.ours import RECIPE_TARGETS, RECIPES, Ours, OursAio
from bench.zookeeper_server import ROOT, OnZookeeper

TURNS = (
    Target("handoffs", "at least", 1.3, "kazoo"),
    Target("requests", "at most", 5.0),
    Target("overtaking", "at most", 0.0),
    Target("overlaps", "at most", 0.0),
)
TARGETS = {
    "pair": (Target("wall_us", "at most", 1.0, "kazoo"),),
    "handoff": TURNS,
    "renewals": (Target("lost", "at most", 0.0),),
}


class Zookeeper(OnZookeeper, Ours):
    """From threads."""

    name = "fencelock zookeeper"
    needs = ("kazoo",)
    works = RECIPES | {"pair", "handoff", "wakeup", "idle", "renewals", "import"}
    targets: ClassVar = {**TARGETS, **RECIPE_TARGETS}

    def url(self) -> str:
        return f"zookeeper://{self.place}{ROOT}"


class ZookeeperAio(OnZookeeper, OursAio):
    """From asyncio."""

    name = "fencelock zookeeper asyncio"
    needs = ("kazoo",)
    works = Zookeeper.works - RECIPES
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return f"zookeeper://{self.place}{ROOT}"
