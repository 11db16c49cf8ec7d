"""ZooKeeper's client protocol: messages, session and connection, for threads and for asyncio."""

from __future__ import annotations

from collections.abc import Callable

from ....world import World
from .connection import Connection, Settings

__all__ = ["CONNECTIONS", "Connection", "Settings", "make_connection"]


def _threads(settings: Settings, world: World) -> Connection:
    from .threads import ThreadsConnection

    return ThreadsConnection(settings, world)


def _aio(settings: Settings, world: World) -> Connection:
    from .aio import AioConnection

    return AioConnection(settings, world)


CONNECTIONS: dict[str, Callable[[Settings, World], Connection]] = {
    "threads": _threads,
    "asyncio": _aio,
}
"""The connection factories, by the flavor of a world."""


def make_connection(world: World, settings: Settings) -> Connection:
    """Make the connection of a world's flavor."""
    return CONNECTIONS[world.flavor](settings, world)
