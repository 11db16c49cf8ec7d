"""Fencelock over MariaDB, in each of its modes."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.mysql_server import OnMysql
from bench.ours import Ours, OursAio

TURNS = (Target("overlaps", "at most", 0.0),)


class LeaseThreads(OnMysql, Ours):
    """mode=lease, from threads."""

    name = "fencelock mysql"
    works = frozenset({"pair", "threads", "handoff", "wakeup", "idle", "renewals", "import"})
    needs = ("pymysql",)
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.3, "upsert by hand"),),
        "handoff": (Target("overtaking", "at most", 0.0), *TURNS),
        "idle": (Target("requests", "at most", 5.0), Target("listening", "at most", 1.0)),
        "renewals": (Target("lost", "at most", 0.0),),
    }

    def url(self) -> str:
        return self.place


class LeaseAio(OnMysql, OursAio):
    """mode=lease, from asyncio."""

    name = "fencelock mysql asyncio"
    works = frozenset({"pair", "tasks", "handoff", "wakeup", "idle", "renewals", "import"})
    needs = ("pymysql", "aiomysql")
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.3, "upsert by hand asyncio"),),
        "tasks": (
            Target("pairs", "at least", 1.5, "upsert by hand asyncio"),
            Target("connections", "at most", 8.0),
        ),
        "handoff": (Target("overtaking", "at most", 0.0), *TURNS),
    }

    def url(self) -> str:
        return self.place


class AdvisoryThreads(OnMysql, Ours):
    """mode=advisory, from threads."""

    name = "fencelock mysql advisory"
    works = frozenset({"pair", "threads", "handoff", "wakeup"})
    needs = ("pymysql",)
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.3, "GET_LOCK by hand"),),
        "handoff": (Target("handoffs", "at least", 0.8, "GET_LOCK by hand"), *TURNS),
    }

    def url(self) -> str:
        return f"{self.place}?mode=advisory"


class AdvisoryAio(OnMysql, OursAio):
    """mode=advisory, from asyncio."""

    name = "fencelock mysql advisory asyncio"
    works = frozenset({"pair", "tasks", "handoff"})
    needs = ("pymysql", "aiomysql")
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.3, "GET_LOCK by hand asyncio"),),
        "tasks": (
            Target("pairs", "at least", 1.5, "GET_LOCK by hand asyncio"),
            Target("connections", "at most", 16.0),
        ),
        "handoff": TURNS,
    }

    def url(self) -> str:
        return f"{self.place}?mode=advisory"


class RowThreads(OnMysql, Ours):
    """mode=row, from threads."""

    name = "fencelock mysql row"
    works = frozenset({"pair", "threads", "handoff"})
    needs = ("pymysql",)
    targets: ClassVar = {"handoff": TURNS}

    def url(self) -> str:
        return f"{self.place}?mode=row"
