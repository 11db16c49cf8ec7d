"""Five independent Redis servers for each contestant of Redlock; for some, one of them hangs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from bench.contestant import Contestant
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.server import Missing, program

COUNT = 5


class OnNodes(Contestant):
    """Competes over five servers of its own, without persistence."""

    field = "redlock"
    hung: ClassVar[bool] = False
    """Whether one of them is stopped before anybody connects."""

    @classmethod
    def missing(cls) -> str:
        return super().missing() or _absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(cls.hung)

    @property
    def ports(self) -> list[int]:
        return [int(address.rpartition(":")[2]) for address in self._addresses]

    @property
    def urls(self) -> list[str]:
        """One for each node, as other libraries want them."""
        return [f"redis://{address}/0" for address in self._addresses]

    @property
    def _addresses(self) -> list[str]:
        return self.place.removeprefix("redlock://").split(",")


@contextmanager
def _serve(hung: bool) -> Iterator[str]:
    with Nodes(COUNT) as nodes:
        if hung:
            nodes.nodes[0].pause()
        yield nodes.url


def _absent() -> str:
    try:
        program("redis-server", Redis.package)
    except Missing as error:
        return str(error)
    return ""
