"""Fencelock over Firestore's emulator."""

from __future__ import annotations

from typing import ClassVar

from bench.contestant import Target
from bench.firestore_server import OnFirestore
from bench.ours import Ours, OursAio

WORKS = frozenset({"pair", "handoff", "wakeup", "renewals"})
TARGETS = {
    "pair": (Target("wall_us", "at most", 1.3, "firestore create by hand"),),
    "handoff": (Target("overlaps", "at most", 0.0),),
    "renewals": (Target("lost", "at most", 0.0),),
}


class FirestoreThreads(OnFirestore, Ours):
    """From threads."""

    name = "fencelock firestore"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return f"firestore://bench/locks?emulator={self.place}"


class FirestoreAio(OnFirestore, OursAio):
    """From asyncio."""

    name = "fencelock firestore asyncio"
    works = WORKS
    targets: ClassVar = TARGETS

    def url(self) -> str:
        return f"firestore://bench/locks?emulator={self.place}"
