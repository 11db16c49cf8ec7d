"""At which nodes a lock is held."""

from __future__ import annotations

from tests.faults.flavors import Lab
from tests.servers.redlock import Nodes


def has_key(nodes: Nodes, place: int, name: str = "seat") -> bool:
    return bool(nodes.nodes[place].cli("EXISTS", name))


async def everywhere(lab: Lab, nodes: Nodes, name: str = "seat") -> None:
    """Nobody waits for the last node to grant a lock: wait until it has."""
    await lab.until(lambda: all(nodes.cli("EXISTS", name)), "the last node to grant it")
