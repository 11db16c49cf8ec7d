"""Google's emulator of Firestore for the contestants that need one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from bench.contestant import Contestant
from tests.servers import firestore
from tests.servers.firestore import Firestore


class OnFirestore(Contestant):
    """A contestant whose place is the address of an emulator."""

    field: ClassVar[str] = "firestore"

    @classmethod
    def missing(cls) -> str:
        return super().missing() or ("" if firestore.find() else firestore.ADVICE)

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Firestore(folder) as server:
        yield server.address
