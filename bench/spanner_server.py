"""An emulator of Cloud Spanner for the contestants that need one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from bench.contestant import Contestant
from tests.servers.server import Missing
from tests.servers.spanner import Spanner, program


class OnSpanner(Contestant):
    """A contestant whose place is the URL of a database."""

    field: ClassVar[str] = "spanner"
    needs = ("google.cloud.spanner_v1",)

    @classmethod
    def absent(cls) -> str:
        try:
            program()
        except Missing as missing:
            return str(missing)
        return ""

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Spanner(folder) as server:
        yield server.fresh_url()
