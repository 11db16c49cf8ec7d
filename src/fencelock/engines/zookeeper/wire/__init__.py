"""ZooKeeper's client protocol: messages, session and connection, for threads and for asyncio."""

from __future__ import annotations

from ....world import World
from .connection import Connection, Settings

__all__ = ["Connection", "Settings", "make_connection"]


def make_connection(world: World, settings: Settings) -> Connection:
    """Make the connection of a world's flavor."""
    if world.flavor == "asyncio":
        from .aio import AioConnection

        return AioConnection(settings, world)
    from .threads import ThreadsConnection

    return ThreadsConnection(settings, world)
