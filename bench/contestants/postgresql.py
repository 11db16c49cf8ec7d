"""Fencelock over PostgreSQL, in each of its modes."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.ours import RECIPE_TARGETS, RECIPES, Ours, OursAio
from bench.postgresql_server import OnPostgresql

TURNS = (Target("overlaps", "at most", 0.0),)


class LeaseThreads(OnPostgresql, Ours):
    """mode=lease, from threads."""

    name = "fencelock postgresql"
    works = RECIPES | {"pair", "threads", "handoff", "wakeup", "idle", "renewals", "import"}
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.3, "psycopg upsert by hand"),),
        "handoff": (
            Target("handoffs", "at least", 3.0, "pals"),
            Target("overtaking", "at most", 0.0),
            *TURNS,
        ),
        "idle": (Target("requests", "at most", 1.0), Target("listening", "at most", 1.0)),
        "renewals": (Target("lost", "at most", 0.0),),
        **RECIPE_TARGETS,
    }

    def url(self) -> str:
        return self.place


class LeaseAio(OnPostgresql, OursAio):
    """mode=lease, from asyncio."""

    name = "fencelock postgresql asyncio"
    works = frozenset({"pair", "tasks", "handoff", "wakeup", "idle", "renewals", "import"})
    targets: ClassVar = {
        "tasks": (
            Target("pairs", "at least", 1.5, "psycopg upsert by hand asyncio"),
            Target("connections", "at most", 8.0),
        ),
        "handoff": (Target("overtaking", "at most", 0.0), *TURNS),
        "idle": (Target("requests", "at most", 1.0), Target("listening", "at most", 1.0)),
    }

    def url(self) -> str:
        return self.place


class AdvisoryThreads(OnPostgresql, Ours):
    """mode=advisory, from threads."""

    name = "fencelock postgresql advisory"
    works = frozenset({"pair", "threads", "handoff", "wakeup"})
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 1.3, "psycopg advisory by hand"),),
        "handoff": (Target("handoffs", "at least", 0.8, "psycopg advisory by hand"), *TURNS),
    }

    def url(self) -> str:
        return f"{self.place}?mode=advisory"


class AdvisoryAio(OnPostgresql, OursAio):
    """mode=advisory, from asyncio."""

    name = "fencelock postgresql advisory asyncio"
    works = frozenset({"pair", "tasks", "handoff"})
    targets: ClassVar = {"handoff": TURNS}

    def url(self) -> str:
        return f"{self.place}?mode=advisory"


class RowThreads(OnPostgresql, Ours):
    """mode=row, from threads."""

    name = "fencelock postgresql row"
    works = frozenset({"pair", "threads", "handoff"})
    targets: ClassVar = {"handoff": TURNS}

    def url(self) -> str:
        return f"{self.place}?mode=row"
