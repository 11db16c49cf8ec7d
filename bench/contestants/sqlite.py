"""Fencelock over its embedded engine."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.ours import RECIPE_TARGETS, RECIPES, Ours, OursAio

WAITING = {
    "wakeup": (Target("wakeup_ms", "at most", 2.0),),
    "idle": (Target("together", "at most", 1.0), Target("apart", "at most", 1.0)),
    "renewals": (
        Target("cpu_9", "at most", 3.0),
        Target("resident_mb", "at most", 8.0),
        Target("lost", "at most", 0.0),
    ),
}


class Sqlite(Ours):
    """From threads."""

    name = "fencelock sqlite"
    works = RECIPES | {"pair", "handoff", "wakeup", "idle", "renewals", "import"}
    targets: ClassVar = {
        "pair": (
            Target("wall_us", "at most", 3.0, "raw sqlite3"),
            Target("wall_us", "at most", 1.0, "filelock"),
        ),
        "handoff": (
            Target("handoffs", "at least", 1000.0),
            Target("handoffs", "at least", 1000 / 175, "filelock"),
            Target("overtaking", "at most", 0.0),
            Target("overlaps", "at most", 0.0),
        ),
        "import": (Target("import_ms", "at most", 45.0),),
        **WAITING,
        **RECIPE_TARGETS,
    }

    def url(self) -> str:
        return f"sqlite:///{self.place}/locks.db"


class SqliteAio(OursAio):
    """From asyncio."""

    name = "fencelock sqlite asyncio"
    works = Sqlite.works - RECIPES
    targets: ClassVar = WAITING

    def url(self) -> str:
        return f"sqlite:///{self.place}/locks.db"
