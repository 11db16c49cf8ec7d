"""Several independent Redis servers, over which Redlock takes its majorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.servers.group import Group
from tests.servers.redis import Redis
from tests.servers.server import free_port


class Nodes(Group):
    """So many servers that know nothing of each other."""

    def __init__(self, count: int = 3, **options: Any) -> None:
        self.nodes = [Redis(port=port, **options) for port in _free_ports(count)]
        self.servers = [*self.nodes]

    def join(self) -> None:
        """They stay apart."""

    @property
    def url(self) -> str:
        return redlock(*(node.address for node in self.nodes))

    def cli(self, *words: object, at: Sequence[int] | None = None) -> list[Any]:
        """Send one command to all of them, or to some."""
        return [self.nodes[n].cli(*words) for n in at or range(len(self.nodes))]


def _free_ports(count: int) -> list[int]:
    """Ports that nobody uses, each another one: none is taken before all are chosen."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[free_port()] = None
    return list(found)


def redlock(*addresses: str) -> str:
    return f"redlock://{','.join(addresses)}"
