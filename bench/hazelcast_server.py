"""Three members of Hazelcast, in one process, for the contestants that need them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from bench.contestant import Contestant
from tests.servers import hazelcast_program
from tests.servers.hazelcast import Hazelcast


class OnHazelcast(Contestant):
    """A contestant whose place is the addresses of the members and the name of the cluster."""

    field: ClassVar[str] = "hazelcast"

    @classmethod
    def absent(cls) -> str:
        return "" if hazelcast_program.find() else hazelcast_program.ADVICE

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Hazelcast(folder) as server:
        yield server.url.removeprefix("hazelcast://")
