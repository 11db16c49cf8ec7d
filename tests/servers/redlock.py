"""Several independent Redis servers, over which Redlock takes its majorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.servers.group import Group
from tests.servers.redis import Redis


class Nodes(Group):
    """So many servers that know nothing of each other."""

    def __init__(self, count: int = 3, **options: Any) -> None:
        self.nodes = [Redis(**options) for _ in range(count)]
        self.servers = [*self.nodes]

    def join(self) -> None:
        """They stay apart."""

    @property
    def url(self) -> str:
        return redlock(*(node.address for node in self.nodes))

    def cli(self, *words: object, at: Sequence[int] | None = None) -> list[Any]:
        """Send one command to all of them, or to some."""
        return [self.nodes[n].cli(*words) for n in at or range(len(self.nodes))]


def redlock(*addresses: str) -> str:
    return f"redlock://{','.join(addresses)}"
