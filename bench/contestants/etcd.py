"""Fencelock over etcd."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.etcd_server import OnEtcd
from bench.ours import RECIPE_TARGETS, RECIPES, Ours, OursAio

TURNS = (
    Target("handoffs", "at least", 3.0, "etcd-sdk-python"),
    Target("overtaking", "at most", 0.0),
    Target("overlaps", "at most", 0.0),
)
WAITING = {
    "idle": (Target("requests", "at most", 1.0),),
    "renewals": (Target("lost", "at most", 0.0),),
}


class EtcdThreads(OnEtcd, Ours):
    """From threads."""

    name = "fencelock etcd"
    works = RECIPES | {"pair", "handoff", "wakeup", "idle", "renewals", "import"}
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.2, "raw etcd"),),
        "handoff": TURNS,
        **WAITING,
        **RECIPE_TARGETS,
    }

    def url(self) -> str:
        return f"etcd://{self.place}"


class EtcdAio(OnEtcd, OursAio):
    """From asyncio."""

    name = "fencelock etcd asyncio"
    works = EtcdThreads.works - RECIPES
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.2, "raw etcd asyncio"),),
        "handoff": TURNS[1:],
        **WAITING,
    }

    def url(self) -> str:
        return f"etcd://{self.place}"
