"""Fencelock over its embedded engine."""

from __future__ import annotations

from bench.ours import Ours, OursAio


class Sqlite(Ours):
    """From threads."""

    name = "fencelock sqlite"
    works = frozenset({"pair", "handoff", "wakeup", "idle", "renewals", "import"})

    def url(self) -> str:
        return f"sqlite:///{self.place}/locks.db"


class SqliteAio(OursAio):
    """From asyncio."""

    name = "fencelock sqlite asyncio"
    works = Sqlite.works

    def url(self) -> str:
        return f"sqlite:///{self.place}/locks.db"
