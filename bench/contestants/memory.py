"""Fencelock within one process: what the layers above an engine cost."""

from __future__ import annotations

from bench.ours import Ours, OursAio


class Memory(Ours):
    """From threads."""

    name = "fencelock memory"
    works = frozenset({"pair", "renewals"})

    def url(self) -> str:
        return "memory://bench"


class MemoryAio(OursAio):
    """From asyncio."""

    name = "fencelock memory asyncio"
    works = frozenset({"pair"})

    def url(self) -> str:
        return "memory://bench-aio"
