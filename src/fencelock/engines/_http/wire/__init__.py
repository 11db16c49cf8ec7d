"""The connections of one client: all that knows bytes and sockets.

``http1.py`` turns a call into bytes and bytes into an answer. Of each flavor there is one kind of
connection, for one caller at a time (``connection_threads.py``, ``connection_aio.py``); ``pool.py``
keeps a few of them for each node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .connection import Connect

if TYPE_CHECKING:
    from ....world import World


def _threads() -> Connect:
    from .connection_threads import connect_threads

    return connect_threads


def _aio() -> Connect:
    from .connection_aio import connect_aio

    return connect_aio


CONNECTS: dict[str, Callable[[], Connect]] = {"threads": _threads, "asyncio": _aio}
"""By flavor, what makes connections."""


def connect_in(world: World) -> Connect:
    """What makes connections in this world."""
    return CONNECTS[world.flavor]()
