"""The connections of one client: all code that handles bytes and sockets.

``connection.py`` defines what a connection can do, and packs requests. Each flavor has a connection
that all threads or tasks share (``connection_threads.py``, ``connection_aio.py``), and the pool
that has one for each server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .connection import Pool

if TYPE_CHECKING:
    from ....world import World
    from ..settings import Settings


def _threads(world: World, settings: Settings) -> Pool:
    from .pool_threads import ThreadsPool

    return ThreadsPool(world, settings)


def _aio(world: World, settings: Settings) -> Pool:
    from .pool_aio import AioPool

    return AioPool(settings)


POOLS: dict[str, Callable[[World, Settings], Pool]] = {"threads": _threads, "asyncio": _aio}
"""Makers of a pool, by the flavor of a world: each imports its part of the driver when called."""
