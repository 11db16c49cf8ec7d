"""Fencelock over MariaDB and over MySQL, in each of its modes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from bench.contestant import Target
from bench.mysql_server import OnMariadb, OnMysql, OnSql
from bench.ours import RECIPE_TARGETS, RECIPES, Ours, OursAio

TURNS = (Target("overlaps", "at most", 0.0),)
Targets = Mapping[str, tuple[Target, ...]]


class _LeaseThreads(OnSql, Ours):
    works = RECIPES | {"pair", "threads", "handoff", "wakeup", "idle", "renewals", "import"}
    needs = ("pymysql",)

    def url(self) -> str:
        return self.place


class _LeaseAio(OnSql, OursAio):
    works = frozenset({"pair", "tasks", "handoff", "wakeup", "idle", "renewals", "import"})
    needs = ("pymysql", "aiomysql")

    def url(self) -> str:
        return self.place


class _AdvisoryThreads(OnSql, Ours):
    works = frozenset({"pair", "threads", "handoff", "wakeup"})
    needs = ("pymysql",)

    def url(self) -> str:
        return f"{self.place}?mode=advisory"


class _AdvisoryAio(OnSql, OursAio):
    works = frozenset({"pair", "tasks", "handoff"})
    needs = ("pymysql", "aiomysql")

    def url(self) -> str:
        return f"{self.place}?mode=advisory"


def _lease(server: str) -> Targets:
    return {
        "pair": (Target("wall_us", "at most", 1.3, f"upsert by hand {server}"),),
        "handoff": (Target("overtaking", "at most", 0.0), *TURNS),
        "idle": (Target("requests", "at most", 5.0), Target("listening", "at most", 1.0)),
        "renewals": (Target("lost", "at most", 0.0),),
        **RECIPE_TARGETS,
    }


def _lease_aio(server: str) -> Targets:
    return {
        "pair": (Target("wall_us", "at most", 1.3, f"upsert by hand asyncio {server}"),),
        "tasks": _tasks(f"upsert by hand asyncio {server}"),
        "handoff": (Target("overtaking", "at most", 0.0), *TURNS),
    }


def _advisory(server: str) -> Targets:
    by_hand = f"GET_LOCK by hand {server}"
    return {
        "pair": (Target("wall_us", "at most", 1.3, by_hand),),
        "handoff": (Target("handoffs", "at least", 0.8, by_hand), *TURNS),
    }


def _advisory_aio(server: str) -> Targets:
    by_hand = f"GET_LOCK by hand asyncio {server}"
    return {
        "pair": (Target("wall_us", "at most", 1.3, by_hand),),
        "tasks": _tasks(by_hand),
        "handoff": TURNS,
    }


def _tasks(by_hand: str) -> tuple[Target, ...]:
    return Target("pairs", "at least", 1.5, by_hand), Target("connections", "at most", 8.0)


class LeaseThreadsMariadb(OnMariadb, _LeaseThreads):
    name = "fencelock mariadb"
    targets: ClassVar = _lease("mariadb")


class LeaseThreadsMysql(OnMysql, _LeaseThreads):
    name = "fencelock mysql"
    targets: ClassVar = _lease("mysql")


class LeaseAioMariadb(OnMariadb, _LeaseAio):
    name = "fencelock mariadb asyncio"
    targets: ClassVar = _lease_aio("mariadb")


class LeaseAioMysql(OnMysql, _LeaseAio):
    name = "fencelock mysql asyncio"
    targets: ClassVar = _lease_aio("mysql")


class AdvisoryThreadsMariadb(OnMariadb, _AdvisoryThreads):
    name = "fencelock mariadb advisory"
    targets: ClassVar = _advisory("mariadb")


class AdvisoryThreadsMysql(OnMysql, _AdvisoryThreads):
    name = "fencelock mysql advisory"
    targets: ClassVar = _advisory("mysql")


class AdvisoryAioMariadb(OnMariadb, _AdvisoryAio):
    name = "fencelock mariadb advisory asyncio"
    targets: ClassVar = _advisory_aio("mariadb")


class AdvisoryAioMysql(OnMysql, _AdvisoryAio):
    name = "fencelock mysql advisory asyncio"
    targets: ClassVar = _advisory_aio("mysql")
